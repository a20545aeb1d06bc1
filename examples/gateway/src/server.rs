//! Accepts connections until told to stop, then ends them in an orderly way.

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use std::{convert::Infallible, time::Duration};
use tokio::{net::TcpListener, task::JoinSet, time::timeout};
use tower::Service;
use tower_ai_core::BoxError;

/// Serves `app` over HTTP/1.1 and HTTP/2 (prior knowledge) until `stop` resolves.
///
/// Then no connection is accepted any more, idle ones are closed, and requests that are under way, streams included, get
/// `limit` to end. What is left after that is dropped: each call settles as it does when its caller hangs up.
pub async fn serve<S, B>(listener: TcpListener, app: S, stop: impl Future<Output = ()>, limit: Duration)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()); // turns on hyper's limit of 30 s for a request's head
    server.http2().timer(TokioTimer::new());
    let app = TowerToHyperService::new(app);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();

    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            _ = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Small events must not wait for the acknowledgement of the ones before.
                let _ = stream.set_nodelay(true);
                let connection = server
                    .serve_connection(TokioIo::new(stream), app.clone())
                    .into_owned();
                connections.spawn(graceful.watch(connection));
            }
            Err(error) => {
                // Out of file descriptors, most likely: some connection has to end first.
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    drop(listener);
    tracing::info!(connections = graceful.count(), "stopping: no new connections");
    if timeout(limit, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "the shutdown limit is over: dropping what is left"
        );
    }
    connections.shutdown().await;
}

/// Resolves when the process is told to stop: SIGTERM, or Ctrl-C.
///
/// # Panics
/// When the signal handlers cannot be installed.
pub async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM can be installed");
    let mut interrupt = signal(SignalKind::interrupt()).expect("a handler for SIGINT can be installed");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
