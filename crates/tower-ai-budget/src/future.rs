//! The wait for the ledger, if it does not answer at once, and for the inner service.

use crate::{
    Ledger, ResponseBody,
    decision::{Admitted, Pending, Refused},
    observe,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_ai_core::{Outcome, RefusedBy};
use tower_service::Service;

pin_project! {
    /// Resolves to the inner service's answer, or to a refusal.
    ///
    /// Dropping it drops the inner future, and then settles: a call that was given up may be billed.
    pub struct ResponseFuture<S, B, L>
    where
        S: Service<Request<B>>,
        L: Ledger,
    {
        #[pin]
        state: State<S, B, L>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B, L>
    where
        S: Service<Request<B>>,
        L: Ledger,
    {
        Reserving {
            #[pin]
            reserving: L::Reserving,
            // The instance that was polled ready. `None` once it is called.
            waiting: Option<(S, Request<B>, Pending<L>)>,
        },
        // Dropped in this order: what the inner service settles comes before the reservation.
        Calling {
            #[pin]
            inner: S::Future,
            admitted: Option<Admitted<L>>,
        },
        Refused {
            refused: Option<Refused>,
        },
        Done,
    }
}

impl<S, B, L> ResponseFuture<S, B, L>
where
    S: Service<Request<B>>,
    L: Ledger,
{
    pub(crate) fn reserving(
        reserving: L::Reserving,
        polled: S,
        request: Request<B>,
        pending: Pending<L>,
    ) -> Self {
        Self {
            state: State::Reserving {
                reserving,
                waiting: Some((polled, request, pending)),
            },
        }
    }

    pub(crate) fn calling(inner: S::Future, admitted: Admitted<L>) -> Self {
        Self {
            state: State::Calling {
                inner,
                admitted: Some(admitted),
            },
        }
    }

    pub(crate) fn refused(refused: Refused) -> Self {
        Self {
            state: State::Refused {
                refused: Some(refused),
            },
        }
    }
}

impl<S, B, L, RB> Future for ResponseFuture<S, B, L>
where
    S: Service<Request<B>, Response = Response<RB>>,
    RB: Body<Data = Bytes>,
    L: Ledger,
{
    type Output = Result<Response<ResponseBody<RB, L>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Reserving { reserving, waiting } => {
                    let reserved = ready!(reserving.poll(cx));
                    let (mut polled, request, pending) = waiting.take().expect("polled after it was ready");
                    let next = match pending.decide(reserved) {
                        Ok(admitted) => ResponseFuture::calling(polled.call(request), admitted),
                        Err(refused) => ResponseFuture::refused(refused),
                    };
                    state.set(next.state);
                }
                StateProj::Calling { inner, admitted } => {
                    let result = ready!(inner.poll(cx));
                    let admitted = admitted.take();
                    state.set(State::Done); // drops what the inner future still holds before anything settles
                    return Poll::Ready(answered(result, admitted));
                }
                StateProj::Refused { refused } => {
                    let refused = refused.take().expect("polled after it was ready");
                    return Poll::Ready(Ok(refuse(refused)));
                }
                StateProj::Done => panic!("polled after it was ready"),
            }
        }
    }
}

fn answered<B: Body, E, L: Ledger>(
    result: Result<Response<B>, E>,
    admitted: Option<Admitted<L>>,
) -> Result<Response<ResponseBody<B, L>>, E> {
    let (mut reservation, state) = match admitted {
        Some(Admitted { reservation, state }) => (reservation, state),
        None => (None, None),
    };
    let outcome = match &result {
        Err(_) => Outcome::Failed,
        Ok(response) if response.extensions().get::<RefusedBy>().is_some() => Outcome::Refused,
        Ok(response) if response.status().is_success() => Outcome::Success,
        Ok(_) => Outcome::Error,
    };
    if let Some(reservation) = &mut reservation {
        reservation.answered(outcome);
    }
    let mut response = result?;
    if let Some(state) = state {
        response.extensions_mut().insert(state);
    }
    Ok(response.map(|body| ResponseBody::new(body, reservation)))
}

fn refuse<B: Body, L: Ledger>(refused: Refused) -> Response<ResponseBody<B, L>> {
    let Refused {
        refusal,
        format,
        state,
    } = refused;
    observe::refused(refusal.refused_by());
    let mut response = refusal.into_response(format);
    if let Some(state) = state {
        response.extensions_mut().insert(state);
    }
    response.map(ResponseBody::refusal)
}

impl<S, B, L> fmt::Debug for ResponseFuture<S, B, L>
where
    S: Service<Request<B>>,
    L: Ledger,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Reserving { .. } => "Reserving",
            State::Calling { .. } => "Calling",
            State::Refused { .. } => "Refused",
            State::Done => "Done",
        };
        f.debug_struct("ResponseFuture")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
