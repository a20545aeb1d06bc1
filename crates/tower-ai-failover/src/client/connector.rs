//! A connector with a limit on the whole of it: name lookup, TCP and TLS.

use http::Uri;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::timeout;
use tower_ai_core::{BoxError, Silence, SilentPhase};
use tower_service::Service;

#[derive(Clone)]
pub(crate) struct Bounded<C> {
    inner: C,
    limit: Duration,
}

impl<C> Bounded<C> {
    pub(crate) fn new(inner: C, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl<C> Service<Uri> for Bounded<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    /// One box for each new connection: hyper wants it `Unpin`.
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, limit) = (self.inner.call(uri), self.limit);
        Box::pin(async move {
            match timeout(limit, connecting).await {
                Ok(connection) => connection.map_err(Into::into),
                Err(_) => Err(Silence {
                    phase: SilentPhase::Connect,
                    limit,
                }
                .into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::fault;
    use tower::{ServiceExt, service_fn};

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_come_is_a_silence_with_its_limit() {
        let never = service_fn(|_: Uri| std::future::pending::<Result<(), BoxError>>());
        let bounded = Bounded::new(never, Duration::from_secs(3));
        let start = tokio::time::Instant::now();
        let error = bounded.oneshot(Uri::from_static("http://a")).await.unwrap_err();
        assert_eq!(start.elapsed(), Duration::from_secs(3));
        assert_eq!(fault(&error).to_string(), "connect-3s");
    }
}
