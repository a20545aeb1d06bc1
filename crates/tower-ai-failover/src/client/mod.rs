//! An HTTP client for upstreams, over hyper's.

mod body;
mod connector;

pub use body::ClientBody;

use body::{Feed, RequestBody};
use bytes::Bytes;
use connector::Bounded;
use http::{Request, Response};
use http_body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        self, Client,
        connect::{HttpConnector, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tower_ai_core::{BoxError, ConfigError, Phases};
use tower_service::Service;

/// The longest wait for a connection, name lookup and TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Idle connections are closed before servers close them under a request.
const POOL_IDLE: Duration = Duration::from_secs(30);
const H2_PING_EVERY: Duration = Duration::from_secs(15);
const H2_PONG_WITHIN: Duration = Duration::from_secs(5);
/// What HTTP/2 may hold back per stream: "written" must not run ahead of the wire by more.
const H2_SEND_BUFFER: usize = 64 * 1024;

/// Sends requests to upstreams over HTTP/1.1 and HTTP/2, plain or with TLS.
///
/// It is the innermost service of a stack: `FailoverLayer` makes the absolute URI that it follows. It tells
/// [`Phases`], so that a watchdog knows when a connection is there and when the request is on the wire. Clones share
/// one pool of connections. Dropping a response future or body cancels the request: the upstream sees the connection
/// close, or its HTTP/2 stream reset.
///
/// Redirects, cookies, proxies and retries are not its business.
///
/// ```
/// # fn main() -> Result<(), tower_ai_core::ConfigError> {
/// use tower::ServiceBuilder;
/// use tower_ai_failover::{FailoverLayer, Routes, Upstream, UpstreamClient};
///
/// let routes = Routes::new().model("gpt-5", [Upstream::openai("openai", "https://api.openai.com/v1").key("sk-…")]);
/// let service = ServiceBuilder::new().layer(FailoverLayer::new(routes)?).service(UpstreamClient::new()?);
/// # let _ = service;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct UpstreamClient {
    client: Client<Bounded<HttpsConnector<HttpConnector>>, RequestBody>,
}

impl UpstreamClient {
    /// A client with a pool of its own, that trusts the certificate authorities of the Mozilla programme.
    ///
    /// # Errors
    /// None at present; reserved for settings that cannot work on this machine.
    pub fn new() -> Result<Self, ConfigError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true); // Nagle and delayed acknowledgements would add 40 ms to small writes
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_webpki_roots()
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .http2_keep_alive_interval(H2_PING_EVERY) // only while streams are open
            .http2_keep_alive_timeout(H2_PONG_WITHIN)
            .http2_max_send_buf_size(H2_SEND_BUFFER)
            .build(Bounded::new(https, CONNECT_LIMIT));
        Ok(Self { client })
    }
}

impl<B> Service<Request<B>> for UpstreamClient
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ClientBody>;
    type Error = ClientError;
    type Future = ClientFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> ClientFuture {
        let phases = request.extensions_mut().remove::<Phases>();
        if let Some(phases) = &phases {
            phases.claim();
            let connection = capture_connection(&mut request);
            phases.on_poison(move || {
                if let Some(connection) = connection.connection_metadata().as_ref() {
                    connection.poison();
                }
            });
        }
        let request = request.map(|body| Feed::erased(body, phases));
        ClientFuture {
            response: self.client.request(request),
        }
    }
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamClient").finish_non_exhaustive()
    }
}

pin_project! {
    /// The response of [`UpstreamClient`], once its head is there.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ClientFuture {
        #[pin]
        response: legacy::ResponseFuture,
    }
}

impl Future for ClientFuture {
    type Output = Result<Response<ClientBody>, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(self.project().response.poll(cx));
        Poll::Ready(
            response
                .map(|response| response.map(ClientBody::new))
                .map_err(ClientError),
        )
    }
}

/// There is no response: no connection, or it broke.
#[derive(Debug)]
pub struct ClientError(legacy::Error);

impl ClientError {
    /// Whether there was no connection: nothing was sent.
    pub fn is_connect(&self) -> bool {
        self.0.is_connect()
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_connect() {
            "no connection to the upstream"
        } else {
            "the upstream broke the connection"
        })
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}
