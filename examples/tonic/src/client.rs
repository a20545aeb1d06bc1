//! A tonic client that goes on to the next channel when one cannot be reached, or is silent.

use crate::echo::{EchoClient, Transport};
use std::time::Duration;
use tonic::{body::Body, transport::Endpoint};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_ai_core::BoxError;
use tower_ai_failover::{ByCandidate, FailoverLayer, Routes, Upstream};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

/// A client over two channels: the first is preferred. A channel has a fixed origin, so each candidate has its own.
pub(crate) fn failing_over(first: &str, second: &str) -> Result<EchoClient<impl Transport>, BoxError> {
    let routes = Routes::new().any([
        Upstream::plain("first", first),
        Upstream::plain("second", second).weight(50),
    ]);
    let watchdog = TtfbWatchdogLayer::new().first_byte(Duration::from_secs(1));
    let channel = |url: &str| {
        // A channel takes tonic's own body, and the watchdog hands down a body that it watches.
        let channel = Endpoint::from_shared(url.to_owned())?.connect_lazy();
        Ok::<_, BoxError>(
            watchdog.layer(channel.map_request(|request: http::Request<_>| request.map(Body::new))),
        )
    };
    let channels = ByCandidate::new([("first", channel(first)?), ("second", channel(second)?)]);
    let failover = FailoverLayer::new(routes)?.unary_grpc(["/example.Echo/Echo"]); // may be sent again
    Ok(EchoClient::new(
        ServiceBuilder::new().layer(failover).service(channels),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server;
    use tokio::net::TcpListener;
    use tonic::Code;

    #[tokio::test]
    async fn the_second_channel_serves_when_the_first_is_dead_and_the_21st_call_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(server::serve(listener));

        let mut echo = failing_over("http://127.0.0.1:9", &live).unwrap();
        for _ in 0..20 {
            assert_eq!(echo.echo("hello").await.unwrap(), "hello");
        }
        let refused = echo.echo("hello").await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(
            refused.metadata().get("ai-error-code").unwrap(),
            "rate_limit_exceeded"
        );
        server.abort();
    }
}
