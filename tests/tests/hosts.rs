//! Each layer in each host: compiled, and run over real sockets.
//!
//! | | axum router | tonic server | tonic channel | hyper server | hyper client |
//! |---|---|---|---|---|---|
//! | rate limit | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | budget | ✓ | ✓ | ✓ | ✓ | ✓ |
//! | failover | ✓ ¹ | ✓ ¹ | ✓ ² | ✓ ¹ | ✓ |
//! | watchdog | ✓ | ✓ | ✓ ² | ✓ | ✓ |
//!
//! ¹ Around a handler in the same process all candidates are that handler: useful where it calls out by the
//! [`Attempt`](tower_ai_core::Attempt) it finds in the request's extensions.
//! ² A channel takes tonic's own request body: a `map_request` between the two wraps it.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};
use tokio::net::TcpListener;
use tonic::{server::NamedService, transport::Endpoint};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{BoxError, Caller, usd};
use tower_ai_failover::{FailoverLayer, Routes, Upstream};
use tower_ai_ratelimit::{Limits, MemoryStore, RateLimitLayer, SECOND, bucket};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

fn rate_limit() -> RateLimitLayer<MemoryStore> {
    let limits = Limits::in_all().requests("rps", bucket(20).refill(2).per(SECOND));
    RateLimitLayer::new(MemoryStore::new(), limits).unwrap()
}

fn budget() -> BudgetLayer<MemoryLedger> {
    BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(2.00)))
        .unwrap()
        .fixed_cost(usd!(0.01))
}

/// Both candidates are the server at `url`; handlers in the same process don't look at it.
fn failover(url: &str) -> FailoverLayer {
    FailoverLayer::new(Routes::new().any([Upstream::plain("a", url), Upstream::plain("b", url)])).unwrap()
}

fn watchdog() -> TtfbWatchdogLayer {
    TtfbWatchdogLayer::new().first_byte(SECOND)
}

fn request<B>(uri: &str, body: B) -> Request<B> {
    let mut request = Request::post(uri).body(body).unwrap();
    request.extensions_mut().insert(Caller::new("acme").unwrap());
    request
}

async fn text<B: Body<Error: std::fmt::Debug>>(response: Response<B>) -> Bytes {
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap().to_bytes()
}

/// A layer around the handlers of an axum router.
mod axum_router {
    use super::*;
    use axum::{Router, body::Body, routing::post};

    fn app() -> Router {
        Router::new().route("/echo", post(async |body: Bytes| body))
    }

    async fn echoes(app: Router) {
        let response = app.oneshot(request("/echo", Body::from("hello"))).await.unwrap();
        assert_eq!(text(response).await, "hello");
    }

    #[tokio::test]
    async fn rate_limit_in_an_axum_router() {
        echoes(app().layer(rate_limit())).await;
    }

    #[tokio::test]
    async fn budget_in_an_axum_router() {
        echoes(app().layer(budget())).await;
    }

    #[tokio::test]
    async fn failover_in_an_axum_router() {
        echoes(app().layer(failover("http://here"))).await;
    }

    #[tokio::test]
    async fn watchdog_in_an_axum_router() {
        echoes(app().layer(watchdog())).await;
    }
}

/// A gRPC service by hand, which sends the request's body back: what is tested is that it stacks.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl Service<Request<tonic::body::Body>> for Echo {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let response = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "0");
        ready(Ok(response.body(request.into_body()).unwrap()))
    }
}

fn grpc_request<B>(url: &str, body: B) -> Request<B> {
    let mut request = request(&format!("{url}/test.Echo/Echo"), body);
    request
        .headers_mut()
        .insert("content-type", "application/grpc".parse().unwrap());
    request
}

/// One gRPC message: not compressed, 5 bytes.
const MESSAGE: &[u8] = b"\0\0\0\0\x05hello";

/// Puts the caller into the request's extensions, as an interceptor of the server would.
fn with_caller<B>(mut request: Request<B>) -> Request<B> {
    request.extensions_mut().insert(Caller::new("acme").unwrap());
    request
}

macro_rules! serve_tonic {
    ($layer:expr) => {{
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tonic::transport::Server::builder()
            .layer(tower::util::MapRequestLayer::new(with_caller))
            .layer($layer)
            .add_service(Echo)
            .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener));
        (url, tokio::spawn(server))
    }};
}

/// A layer around the services of a tonic server.
mod tonic_server {
    use super::*;

    macro_rules! echoes_behind {
        ($layer:expr) => {{
            let (url, server) = serve_tonic!($layer);
            let channel = Endpoint::from_shared(url.clone()).unwrap().connect_lazy();
            let body = tonic::body::Body::new(Full::from(MESSAGE));
            let response = channel.oneshot(grpc_request(&url, body)).await.unwrap();
            assert_eq!(response.headers()["grpc-status"], "0");
            assert_eq!(text(response).await, MESSAGE);
            server.abort();
        }};
    }

    #[tokio::test]
    async fn rate_limit_in_a_tonic_server() {
        echoes_behind!(rate_limit());
    }

    #[tokio::test]
    async fn budget_in_a_tonic_server() {
        echoes_behind!(budget());
    }

    #[tokio::test]
    async fn failover_in_a_tonic_server() {
        echoes_behind!(failover("http://here"));
    }

    #[tokio::test]
    async fn watchdog_in_a_tonic_server() {
        echoes_behind!(watchdog());
    }
}

/// A layer around a tonic channel, as a client's transport.
mod tonic_channel {
    use super::*;
    use tonic::client::GrpcService;

    /// What a generated client asks of its transport.
    fn is_a_transport<T>(transport: T) -> T
    where
        T: GrpcService<tonic::body::Body, ResponseBody: Send, Error: Into<BoxError>> + Clone + Send + 'static,
    {
        transport
    }

    macro_rules! echoes_through {
        ($layer:expr) => {{
            let (url, server) = serve_tonic!(tower::layer::util::Identity::new());
            let channel = Endpoint::from_shared(url.clone()).unwrap().connect_lazy();
            let to_tonic = |request: Request<_>| request.map(tonic::body::Body::new);
            #[allow(clippy::redundant_closure_call)] // the layer may need the URL
            let layer = $layer(&url);
            let transport = is_a_transport(
                ServiceBuilder::new()
                    .layer(layer)
                    .map_request(to_tonic)
                    .service(channel),
            );
            let body = tonic::body::Body::new(Full::from(MESSAGE));
            let response = transport.oneshot(grpc_request(&url, body)).await.unwrap();
            assert_eq!(text(response).await, MESSAGE);
            server.abort();
        }};
    }

    #[tokio::test]
    async fn rate_limit_around_a_tonic_channel() {
        echoes_through!(|_: &str| rate_limit());
    }

    #[tokio::test]
    async fn budget_around_a_tonic_channel() {
        echoes_through!(|_: &str| budget());
    }

    #[tokio::test]
    async fn failover_around_a_tonic_channel() {
        echoes_through!(failover);
    }

    #[tokio::test]
    async fn watchdog_around_a_tonic_channel() {
        echoes_through!(|_: &str| watchdog());
    }
}

async fn echo<B: Body<Data = Bytes>>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible>
where
    B::Error: std::fmt::Debug,
{
    Ok(Response::new(Full::new(
        request.into_body().collect().await.unwrap().to_bytes(),
    )))
}

macro_rules! serve_hyper {
    ($layer:expr) => {{
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let service = ServiceBuilder::new()
            .map_request(with_caller)
            .layer($layer)
            .service_fn(echo);
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(service.clone());
                tokio::spawn(async move {
                    let connection = auto::Builder::new(TokioExecutor::new());
                    connection
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                        .unwrap();
                });
            }
        });
        (url, server)
    }};
}

fn client<B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static>() -> Client<HttpConnector, B> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// A layer around the service of a bare hyper server.
mod hyper_server {
    use super::*;

    macro_rules! echoes_behind {
        ($layer:expr) => {{
            let (url, server) = serve_hyper!($layer);
            let response = client::<Full<Bytes>>()
                .oneshot(request(&url, Full::from("hello")))
                .await
                .unwrap();
            assert_eq!(text(response).await, "hello");
            server.abort();
        }};
    }

    #[tokio::test]
    async fn rate_limit_in_a_hyper_server() {
        echoes_behind!(rate_limit());
    }

    #[tokio::test]
    async fn budget_in_a_hyper_server() {
        echoes_behind!(budget());
    }

    #[tokio::test]
    async fn failover_in_a_hyper_server() {
        echoes_behind!(failover("http://here"));
    }

    #[tokio::test]
    async fn watchdog_in_a_hyper_server() {
        echoes_behind!(watchdog());
    }
}

/// A layer around hyper's client, which is told what body the layer hands down.
mod hyper_client {
    use super::*;
    use tower_ai_core::Buffered;
    use tower_ttfb_watchdog::RequestBody;

    macro_rules! echoes_through {
        ($body:ty, $layer:expr) => {{
            let (url, server) = serve_hyper!(tower::layer::util::Identity::new());
            #[allow(clippy::redundant_closure_call)] // the layer may need the URL
            let service = $layer(&url).layer(client::<$body>());
            let response = service
                .oneshot(request(&url, Full::<Bytes>::from("hello")))
                .await
                .unwrap();
            assert_eq!(text(response).await, "hello");
            server.abort();
        }};
    }

    #[tokio::test]
    async fn rate_limit_around_a_hyper_client() {
        echoes_through!(Full<Bytes>, |_: &str| rate_limit());
    }

    #[tokio::test]
    async fn budget_around_a_hyper_client() {
        echoes_through!(Full<Bytes>, |_: &str| budget());
    }

    #[tokio::test]
    async fn failover_around_a_hyper_client() {
        echoes_through!(Buffered<Full<Bytes>>, failover);
    }

    #[tokio::test]
    async fn watchdog_around_a_hyper_client() {
        echoes_through!(RequestBody<Full<Bytes>>, |_: &str| watchdog());
    }
}
