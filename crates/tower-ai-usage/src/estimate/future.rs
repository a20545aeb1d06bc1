use super::{judge::Subject, layer::Settings, memory::Hold, reading::Reading, rejection::Rejection};
use crate::observe;
use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tower_ai_core::{Buffered, Call, LayerKind, Refusable, RefusalFormat};
use tower_service::Service;

pin_project! {
    /// The future of [`Estimator`](crate::Estimator).
    pub struct EstimateFuture<S, B, F> {
        #[pin]
        state: State<S, B, F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B, F> {
        Refused { rejection: Option<Rejection>, format: RefusalFormat },
        Reading { #[pin] reading: Reading<B>, next: Option<Next<S>> },
        // The memory is held until the head is there: until then the request may be sent again. Inner before guard.
        Calling { #[pin] future: F, _hold: Option<Hold> },
    }
}

/// What is to be done with a body once it is read.
struct Next<S> {
    inner: S,
    parts: Parts,
    subject: Subject,
    format: RefusalFormat,
    settings: Arc<Settings>,
}

impl<S, B, F> EstimateFuture<S, B, F> {
    pub(super) fn calling(future: F) -> Self {
        let state = State::Calling { future, _hold: None };
        Self { state }
    }

    pub(super) fn refused(rejection: Rejection, format: RefusalFormat) -> Self {
        let state = State::Refused {
            rejection: Some(rejection),
            format,
        };
        Self { state }
    }

    pub(super) fn reading(
        reading: Reading<B>,
        inner: S,
        parts: Parts,
        subject: Subject,
        format: RefusalFormat,
        settings: Arc<Settings>,
    ) -> Self {
        let next = Next {
            inner,
            parts,
            subject,
            format,
            settings,
        };
        let state = State::Reading {
            reading,
            next: Some(next),
        };
        Self { state }
    }
}

impl<S> Next<S> {
    /// Calls the inner service with what was read, or says why not.
    fn go<B>(mut self, bytes: &Bytes, body: Buffered<B>) -> Result<S::Future, Rejection>
    where
        S: Service<Request<Buffered<B>>>,
    {
        self.settings.rules.judge(&self.subject, &mut self.parts, bytes)?;
        let call = Call::of(&mut self.parts.extensions);
        call.enter(LayerKind::Estimate);
        observe::estimated(&call);
        Ok(self.inner.call(Request::from_parts(self.parts, body)))
    }
}

impl<S, B, R> Future for EstimateFuture<S, B, S::Future>
where
    S: Service<Request<Buffered<B>>, Response = Response<R>>,
    B: Body<Data = Bytes> + Unpin,
{
    type Output = Result<Response<Refusable<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Reading { reading, next } => {
                    let read = ready!(reading.poll(cx));
                    let next = next.take().expect("a body is read once; do not poll after Ready");
                    let format = next.format;
                    let called = read.and_then(|read| {
                        let future = next.go(&read.bytes, read.body)?;
                        Ok((future, Some(read.hold)))
                    });
                    state.set(match called {
                        Ok((future, hold)) => State::Calling { future, _hold: hold },
                        Err(rejection) => State::Refused {
                            rejection: Some(rejection),
                            format,
                        },
                    });
                }
                StateProj::Refused { rejection, format } => {
                    let rejection = rejection.take().expect("do not poll after Ready");
                    let refusal = rejection.into_refusal();
                    observe::refused(refusal.refused_by());
                    return Poll::Ready(Ok(refusal.into_response(*format)));
                }
                StateProj::Calling { future, .. } => {
                    let response = ready!(future.poll(cx));
                    return Poll::Ready(response.map(|response| response.map(Refusable::inner)));
                }
            }
        }
    }
}

impl<S, B, F> fmt::Debug for EstimateFuture<S, B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Refused { .. } => "Refused",
            State::Reading { .. } => "Reading",
            State::Calling { .. } => "Calling",
        };
        f.debug_tuple("EstimateFuture").field(&state).finish()
    }
}
