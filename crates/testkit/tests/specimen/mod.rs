//! A small layer that keeps the contract, and can be told to break it in one place.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use std::{
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicIsize, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};
use testkit::{Contract, ScriptedBody};
use tower::ServiceExt;
use tower_ai_core::{BodyEnd, OnEnd, TapBody};
use tower_layer::Layer;
use tower_service::Service;

/// The one place where the layer is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    IgnoresReadiness,
    HidesFailedReadiness,
    CallsAClone,
    WaitsForAClone,
    SpinsInPollReady,
    SpinsInTheFuture,
    SpinsInTheBody,
    TakesAPermitForGood,
    CarriesReadinessOver,
    KeepsReadinessWhenRefusing,
    RefusesNothing,
    LosesRequestExtensions,
    LosesResponseExtensions,
    RewritesTheRequestBody,
    DropsTrailers,
    LosesTheSizeHint,
    LosesTheEndOfStream,
    JoinsFrames,
    HidesBodyErrors,
    HidesErrors,
    SettlesTwice,
    SettlesAtNoneOnly,
    SettlesAtTheHead,
    SettlesAfterAnAwait,
    GoesOnDetached,
    ForgetsAReservation,
}

/// Requests to it are refused by the layer itself.
const REFUSED_PATH: &str = "/refused";

/// What the layer reserved and settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    settled: Arc<AtomicUsize>,
    open: Arc<AtomicIsize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Specimen {
    fault: Fault,
    book: Book,
    permits: Arc<AtomicUsize>,
}

/// The contract of the layer with this fault.
pub(crate) fn contract(fault: Fault) -> Contract {
    let layer = Specimen {
        fault,
        book: Book::default(),
        permits: Arc::default(),
    };
    let (settled, open) = (layer.book.settled.clone(), layer.book.open.clone());
    Contract::new(layer)
        .refused_request(|| {
            Request::post(REFUSED_PATH)
                .body(ScriptedBody::of(["text"]))
                .expect("the parts are valid")
        })
        .settlements(move || settled.load(Ordering::SeqCst))
        .reservations(move || open.load(Ordering::SeqCst).unsigned_abs())
}

impl<S> Layer<S> for Specimen {
    type Service = SpecimenService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        SpecimenService {
            inner,
            layer: self.clone(),
            is_ready: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct SpecimenService<S> {
    inner: S,
    layer: Specimen,
    is_ready: bool,
}

impl<S: Clone> Clone for SpecimenService<S> {
    fn clone(&self) -> Self {
        let is_ready = self.is_ready && self.layer.fault == Fault::CarriesReadinessOver;
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
            is_ready,
        }
    }
}

type Answered<B, E> = Pin<Box<dyn Future<Output = Result<Response<B>, E>> + Send>>;

impl<S, B> Service<Request<ScriptedBody>> for SpecimenService<S>
where
    S: Service<Request<ScriptedBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Body<Data = Bytes> + Default + Unpin + Send + 'static,
{
    type Response = Response<SpecimenBody<B>>;
    type Error = S::Error;
    type Future = Answered<SpecimenBody<B>, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.layer.fault == Fault::IgnoresReadiness || self.is_ready {
            return Poll::Ready(Ok(()));
        }
        if self.layer.fault == Fault::TakesAPermitForGood
            && self.layer.permits.fetch_add(1, Ordering::SeqCst) > 0
        {
            return Poll::Pending;
        }
        match self.inner.poll_ready(cx) {
            Poll::Pending if self.layer.fault == Fault::SpinsInPollReady => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(Err(_)) if self.layer.fault == Fault::HidesFailedReadiness => Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) => {
                self.is_ready = true;
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    fn call(&mut self, mut request: Request<ScriptedBody>) -> Self::Future {
        let Specimen { fault, book, .. } = self.layer.clone();
        self.is_ready = false;
        if request.uri().path() == REFUSED_PATH && fault != Fault::RefusesNothing {
            if fault != Fault::KeepsReadinessWhenRefusing {
                self.inner = self.inner.clone();
            }
            return Box::pin(async move { Ok(refusal(fault)) });
        }
        match fault {
            Fault::LosesRequestExtensions => request.extensions_mut().clear(),
            Fault::RewritesTheRequestBody => *request.body_mut() = ScriptedBody::of(["other"]),
            _ => {}
        }
        let fresh = self.inner.clone();
        let mut inner = match fault {
            Fault::CallsAClone | Fault::WaitsForAClone => fresh,
            _ => mem::replace(&mut self.inner, fresh),
        };
        let reservation = Reservation::new(&book, fault);
        Box::pin(async move {
            let call = match fault {
                Fault::WaitsForAClone => inner.ready().await?.call(request),
                _ => inner.call(request),
            };
            let answer = match fault {
                Fault::SpinsInTheFuture => spinning(call).await,
                Fault::GoesOnDetached => tokio::spawn(call).await.unwrap_or_else(|error| panic!("{error}")),
                Fault::HidesErrors => Ok(call.await.unwrap_or_default()),
                Fault::SettlesAfterAnAwait => {
                    mem::forget(reservation);
                    let answer = call.await;
                    book.settle();
                    return answer.map(|response| response.map(|body| SpecimenBody::new(body, fault, None)));
                }
                _ => call.await,
            };
            let mut response = answer?;
            if fault == Fault::LosesResponseExtensions {
                response.extensions_mut().clear();
            }
            let kept = if fault == Fault::SettlesAtTheHead {
                reservation.on_end(BodyEnd::Complete);
                Some(Reservation::new(&book, fault))
            } else {
                Some(reservation)
            };
            Ok(response.map(|body| SpecimenBody::new(body, fault, kept)))
        })
    }
}

fn refusal<B: Body<Data = Bytes> + Default + Unpin>(fault: Fault) -> Response<SpecimenBody<B>> {
    let mut response = Response::new(SpecimenBody::new(B::default(), fault, None));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response
}

async fn spinning<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        future.as_mut().poll(cx)
    })
    .await
}

/// Settles once: at the end of the body, or when dropped.
pub(crate) struct Reservation {
    book: Book,
    fault: Fault,
    is_open: bool,
}

impl Book {
    fn settle(&self) {
        self.settled.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Reservation {
    fn new(book: &Book, fault: Fault) -> Self {
        book.open.fetch_add(1, Ordering::SeqCst);
        Self {
            book: book.clone(),
            fault,
            is_open: true,
        }
    }

    fn settle(&mut self, end: BodyEnd) {
        if self.fault == Fault::SettlesAtNoneOnly && end != BodyEnd::Complete {
            self.is_open = false;
        }
        if self.fault == Fault::ForgetsAReservation {
            self.book.open.fetch_add(1, Ordering::SeqCst);
        }
        if mem::take(&mut self.is_open) {
            self.book.settle();
        }
        if self.fault == Fault::SettlesTwice {
            self.book.settle();
        }
    }
}

impl OnEnd for Reservation {
    fn on_end(mut self, end: BodyEnd) {
        self.settle(end);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_open {
            self.settle(BodyEnd::Dropped);
        }
    }
}

pub(crate) struct SpecimenBody<B> {
    inner: TapBody<B, Option<Reservation>>,
    fault: Fault,
    held: Option<Bytes>,
}

impl<B: Body<Data = Bytes> + Unpin> SpecimenBody<B> {
    fn new(inner: B, fault: Fault, reservation: Option<Reservation>) -> Self {
        Self {
            inner: TapBody::new(inner, reservation),
            fault,
            held: None,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for SpecimenBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        loop {
            let fault = self.fault;
            let poll = Pin::new(&mut self.inner).poll_frame(cx);
            if poll.is_pending() && fault == Fault::SpinsInTheBody {
                cx.waker().wake_by_ref();
            }
            let frame = ready!(poll);
            return Poll::Ready(match frame {
                Some(Ok(frame)) if frame.is_trailers() && fault == Fault::DropsTrailers => None,
                Some(Ok(frame)) if frame.is_data() && fault == Fault::JoinsFrames && self.held.is_none() => {
                    self.held = frame.into_data().ok();
                    continue;
                }
                Some(Ok(frame)) if frame.is_data() && fault == Fault::JoinsFrames => {
                    let (held, data) = (self.held.take(), frame.into_data().ok());
                    let joined: Vec<u8> = held.into_iter().chain(data).flatten().collect();
                    Some(Ok(Frame::data(joined.into())))
                }
                None if self.held.is_some() => self.held.take().map(Frame::data).map(Ok),
                Some(Err(_)) if fault == Fault::HidesBodyErrors => None,
                other => other,
            });
        }
    }

    fn is_end_stream(&self) -> bool {
        self.fault != Fault::LosesTheEndOfStream && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.fault == Fault::LosesTheSizeHint {
            SizeHint::default()
        } else {
            self.inner.size_hint()
        }
    }
}
