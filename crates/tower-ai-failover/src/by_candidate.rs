//! One inner service for each candidate.

use http::Request;
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tower_ai_core::{Attempt, BoxError};
use tower_service::Service;

/// Sends each attempt to the service of its candidate, for transports with a fixed origin such as tonic's `Channel`.
///
/// It is always ready: the readiness of the one service that is asked is driven in the future, so that no candidate gates
/// another. A request without an [`Attempt`] (no failover around it) goes to the first service. One for a candidate that
/// is not listed fails with [`UnknownCandidate`], and failover tries the next: it must not reach another candidate's
/// upstream with this one's key.
///
/// ```
/// use tower_ai_failover::ByCandidate;
/// # let (channel_eu, channel_us) = ((), ());
/// let channels = ByCandidate::new([("eu", channel_eu), ("us", channel_us)]);
/// # let _ = channels;
/// ```
#[derive(Clone, Debug)]
pub struct ByCandidate<S> {
    services: Arc<[(Box<str>, S)]>,
}

impl<S> ByCandidate<S> {
    /// A service for each candidate, by the candidate's id.
    pub fn new<T: Into<String>>(services: impl IntoIterator<Item = (T, S)>) -> Self {
        let services = services
            .into_iter()
            .map(|(id, service)| (id.into().into(), service));
        Self {
            services: services.collect(),
        }
    }

    fn find(&self, attempt: Option<&Attempt>) -> Option<&S> {
        let found = match attempt {
            None => self.services.first(),
            Some(attempt) => self.services.iter().find(|(id, _)| **id == *attempt.candidate),
        };
        found.map(|(_, service)| service)
    }
}

impl<S, B> Service<Request<B>> for ByCandidate<S>
where
    S: Service<Request<B>> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ByCandidateFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.find(request.extensions().get()).cloned();
        ByCandidateFuture {
            state: match service {
                Some(service) => State::Ready {
                    service,
                    request: Some(request),
                },
                None => State::Unknown,
            },
        }
    }
}

pin_project! {
    /// The response of the one service that was asked.
    #[must_use = "futures do nothing unless polled"]
    pub struct ByCandidateFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, Request<B>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, R> {
        Ready { service: S, request: Option<R> },
        Call { #[pin] future: F },
        Unknown,
    }
}

impl<S, B> Future for ByCandidateFuture<S, B>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Output = Result<S::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Ready { service, request } => {
                    ready!(service.poll_ready(cx)).map_err(Into::into)?;
                    let request = request.take().expect("a request is sent once");
                    let future = service.call(request);
                    state.set(State::Call { future });
                }
                StateProj::Call { future } => return future.poll(cx).map_err(Into::into),
                StateProj::Unknown => return Poll::Ready(Err(UnknownCandidate.into())),
            }
        }
    }
}

impl<S, B> fmt::Debug for ByCandidateFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByCandidateFuture").finish_non_exhaustive()
    }
}

/// An attempt at a candidate for which [`ByCandidate`] has no service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCandidate;

impl fmt::Display for UnknownCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no service is listed for this candidate")
    }
}

impl Error for UnknownCandidate {}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Empty;
    use std::time::Duration;
    use testkit::{Answer, ProbeService, ScriptedBody};
    use tower::ServiceExt;

    fn probe() -> ProbeService {
        ProbeService::new(|_| Answer::ok(ScriptedBody::new()))
    }

    fn request(candidate: Option<&str>) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        if let Some(candidate) = candidate {
            request
                .extensions_mut()
                .insert(Attempt::new(1, candidate, Duration::from_secs(1)));
        }
        request
    }

    #[tokio::test]
    async fn an_attempt_reaches_the_service_of_its_candidate() {
        let (a, b) = (probe(), probe());
        let services = ByCandidate::new([("a", a.clone()), ("b", b.clone())]);
        services.clone().oneshot(request(Some("b"))).await.unwrap();
        assert_eq!((a.calls(), b.calls()), (0, 1));
        services.oneshot(request(None)).await.unwrap();
        assert_eq!((a.calls(), b.calls()), (1, 1));
    }

    #[tokio::test]
    async fn an_unknown_candidate_reaches_nobody() {
        let a = probe();
        let services = ByCandidate::new([("a", a.clone())]);
        let error = services.oneshot(request(Some("x"))).await.unwrap_err();
        assert!(error.is::<UnknownCandidate>());
        assert_eq!(a.calls(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_never_ready_gates_nobody_else() {
        let services = ByCandidate::new([("stuck", probe().capacity(0)), ("b", probe())]);
        let stuck = services.clone().oneshot(request(Some("stuck")));
        assert!(tokio::time::timeout(Duration::from_secs(9), stuck).await.is_err());
        assert!(services.oneshot(request(Some("b"))).await.is_ok());
    }
}
