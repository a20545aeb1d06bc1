//! A hyper server whose handler is limited per client address.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use std::{convert::Infallible, io};
use tokio::net::TcpListener;
use tower::{Service, ServiceBuilder, service_fn};
use tower_ai_core::{BoxError, ClientAddr, ConfigError};
use tower_ai_ratelimit::{Limits, MemoryStore, RateLimitLayer, SECOND, bucket};

/// A handler that knows nothing of AI, behind 20 requests at once and 2 a second for each client address.
pub(crate) fn limited() -> Result<
    impl Service<
        Request<Incoming>,
        Response = Response<impl Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static>,
        Error = Infallible,
        Future: Send,
    > + Clone
    + Send
    + 'static,
    ConfigError,
> {
    let limits = Limits::per_client_addr().requests("rps", bucket(20).refill(2).per(SECOND));
    let hello =
        service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new(Full::from("hello\n"))));
    Ok(ServiceBuilder::new()
        .layer(RateLimitLayer::new(MemoryStore::new(), limits)?)
        .service(hello))
}

/// Accepts until the listener fails. The peer's address is what the limit is keyed by; behind a proxy, put the
/// address that the proxy tells instead.
pub(crate) async fn serve<S, B>(listener: TcpListener, service: S) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = ServiceBuilder::new()
            .map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(ClientAddr(peer.ip()));
                request
            })
            .service(service.clone());
        tokio::spawn(async move {
            let connection = auto::Builder::new(TokioExecutor::new());
            let _ = connection
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
                .await;
        });
    }
}
