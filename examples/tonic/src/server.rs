//! A tonic server whose callers have a limit and a budget.

use crate::echo::EchoServer;
use std::io;
use tokio::net::TcpListener;
use tonic::{
    Request, Status,
    service::InterceptorLayer,
    transport::{Server, server::TcpIncoming},
};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{BoxError, Caller, usd};
use tower_ai_ratelimit::{Limits, MemoryStore, RateLimitLayer, SECOND, bucket};

/// Serves until the listener fails. Refusals are trailers-only answers with status `RESOURCE_EXHAUSTED`.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    let limits = Limits::per_tenant().requests("rps", bucket(20).refill(2).per(SECOND));
    Server::builder()
        .layer(InterceptorLayer::new(authenticate))
        .layer(RateLimitLayer::new(MemoryStore::new(), limits)?)
        .layer(BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(2.00)))?.fixed_cost(usd!(0.01)))
        .add_service(EchoServer)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await
        .map_err(|error| io::Error::other(error).into())
}

/// Stands for your authentication: it knows the caller and puts `Caller` into the request's extensions.
fn authenticate(mut request: Request<()>) -> Result<Request<()>, Status> {
    let caller = Caller::new("everyone").map_err(|error| Status::invalid_argument(error.to_string()))?;
    request.extensions_mut().insert(caller);
    Ok(request)
}
