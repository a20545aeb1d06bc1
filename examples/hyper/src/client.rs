//! A hyper client that gives up on a server which accepts a request and then says nothing.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::time::Duration;
use tower::{Service, ServiceBuilder};
use tower_ttfb_watchdog::{RequestBody, TtfbWatchdogLayer};

/// hyper's client behind the watchdog: `504` after 200 ms of silence.
#[cfg_attr(not(test), expect(dead_code, reason = "for you to copy; the test calls it"))]
pub(crate) fn watched() -> impl Service<
    Request<Full<Bytes>>,
    Response = http::Response<impl http_body::Body<Data = Bytes>>,
    Error = hyper_util::client::legacy::Error,
    Future: Send,
> + Clone {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, RequestBody<Full<Bytes>>> = Client::builder(TokioExecutor::new()).build(connector);
    ServiceBuilder::new()
        .layer(TtfbWatchdogLayer::new().first_byte(Duration::from_millis(200)))
        .service(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server;
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    fn get(listener: &TcpListener) -> Request<Full<Bytes>> {
        Request::get(format!("http://{}/", listener.local_addr().unwrap()))
            .body(Full::default())
            .unwrap()
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap(); // accepted by the kernel, answered by nobody
        let response = watched().oneshot(get(&silent)).await.unwrap();
        assert_eq!(response.status(), 504);
    }

    #[tokio::test]
    async fn the_21st_request_of_an_address_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let requests: Vec<_> = (0..21).map(|_| get(&listener)).collect();
        let server = tokio::spawn(server::serve(listener, server::limited().unwrap()));
        let mut statuses = Vec::new();
        for request in requests {
            statuses.push(watched().oneshot(request).await.unwrap().status().as_u16());
        }
        assert_eq!(statuses, [vec![200; 20], vec![429]].concat());
        server.abort();
    }
}
