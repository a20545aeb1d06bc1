//! The whole stack's types in every host, with stores that answer at once and stores that answer later.
//!
//! That this file compiles is most of the test: which bounds fight (`Unpin`, the request body's type through the layers,
//! `Send` of futures) shows nowhere else. Then every stack runs once, without a server: the call reaches the client, which
//! finds nobody, and the caller gets one answer.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use std::{convert::Infallible, pin::Pin, time::Duration};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_ai_budget::{
    Alarm, Amount, Balance, Budget, BudgetLayer, Claim, Drained, Ledger, MemoryLedger, Receipt,
    ReservationId, Reserved, Unavailable,
};
use tower_ai_core::{Basis, BoxError, Caller, FailoverTrace, RefusedBy, Step, usd};
use tower_ai_failover::{FailoverLayer, Routes, Upstream, UpstreamClient};
use tower_ai_ratelimit::{
    Correction, Limits, MemoryStore, PerLimit, RateLimitLayer, SECOND, Scope, Store, Take, Verdict, bucket,
};
use tower_ai_usage::{EstimateLayer, Prices, UsageLayer};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

/// A store or ledger that answers later, as one over a network does.
#[derive(Clone, Debug)]
struct Remote<T>(T);

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn later<T: Send + 'static, F: Future<Output = T> + Send + 'static>(step: Step<T, F>) -> Step<T, Later<T>> {
    Step::Later(Box::pin(async move {
        tokio::task::yield_now().await;
        match step {
            Step::Now(reply) => reply,
            Step::Later(reply) => reply.await,
        }
    }))
}

impl Store for Remote<MemoryStore> {
    type Key = <MemoryStore as Store>::Key;
    type Future = Later<Verdict>;

    fn key(&self, scope: Scope<'_>) -> Self::Key {
        self.0.key(scope)
    }

    fn take(&self, set: &PerLimit<Take<'_, Self::Key>>) -> Step<Verdict, Later<Verdict>> {
        later(self.0.take(set))
    }

    fn correct(&self, corrections: &PerLimit<Correction<'_, Self::Key>>) {
        self.0.correct(corrections);
    }
}

impl Ledger for Remote<MemoryLedger> {
    type Reserving = Later<Reserved>;

    fn reserve(
        &self,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        lease: Duration,
    ) -> Step<Reserved, Later<Reserved>> {
        later(self.0.reserve(id, claims, amount, lease))
    }

    fn settle(&self, receipt: Receipt, actual: Amount, basis: Basis, alarm: &Alarm) {
        self.0.settle(receipt, actual, basis, alarm);
    }

    fn release(&self, receipt: Receipt) {
        self.0.release(receipt);
    }

    fn balance(&self, claim: &Claim) -> impl Future<Output = Result<Balance, Unavailable>> + Send {
        self.0.balance(claim)
    }

    fn drain(&self, limit: Duration) -> impl Future<Output = Drained> + Send {
        self.0.drain(limit)
    }
}

fn rate_limit<St: Store>(store: St) -> RateLimitLayer<St> {
    let limits = Limits::per_tenant().requests("rps", bucket(20).refill(2).per(SECOND));
    RateLimitLayer::new(store, limits).unwrap()
}

fn budget<L: Ledger>(ledger: L) -> BudgetLayer<L> {
    let budget = BudgetLayer::new(ledger, Budget::daily(usd!(2.00))).unwrap();
    budget.assumed_price(usd!(1), usd!(2))
}

/// One candidate, where nobody listens.
fn failover() -> FailoverLayer {
    let routes = Routes::new().any([Upstream::openai("nobody", "http://127.0.0.1:9/v1")]);
    FailoverLayer::new(routes).unwrap().attempts(1)
}

/// The governed stack over its client, as README shows it.
macro_rules! governed {
    ($store:expr, $ledger:expr) => {{
        let prices = Prices::none();
        ServiceBuilder::new()
            .layer(EstimateLayer::new(&prices))
            .layer(rate_limit($store))
            .layer(budget($ledger).on_unknown_price(tower_ai_budget::UnknownPrice::Free))
            .layer(failover())
            .layer(UsageLayer::new(&prices))
            .layer(TtfbWatchdogLayer::new())
            .service(UpstreamClient::new().unwrap())
    }};
}

fn request<B>(body: B) -> Request<B> {
    let mut request = Request::post("/v1/chat/completions").body(body).unwrap();
    request.extensions_mut().insert(Caller::new("acme").unwrap());
    request
}

const PROMPT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

/// What every host asks of a service, and one run of it.
async fn runs<S, B, R>(service: S, body: B)
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError> + std::fmt::Debug> + Send + 'static,
{
    let response = service.oneshot(request(body)).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(
        response.extensions().get::<RefusedBy>().unwrap().code,
        "all_upstreams_exhausted"
    );
    assert_eq!(response.extensions().get::<FailoverTrace>().unwrap().0.len(), 1);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"error\":"));
}

#[tokio::test]
async fn the_stack_is_a_service_of_hyper_bodies() {
    let body = || Full::<Bytes>::from(PROMPT);
    runs(governed!(MemoryStore::new(), MemoryLedger::new()), body()).await;
    runs(governed!(Remote(MemoryStore::new()), MemoryLedger::new()), body()).await;
    runs(governed!(MemoryStore::new(), Remote(MemoryLedger::new())), body()).await;
    runs(
        governed!(Remote(MemoryStore::new()), Remote(MemoryLedger::new())),
        body(),
    )
    .await;
}

#[tokio::test]
async fn the_stack_is_a_service_of_axum_bodies() {
    let body = || axum::body::Body::from(PROMPT);
    runs(governed!(MemoryStore::new(), MemoryLedger::new()), body()).await;
    runs(
        governed!(Remote(MemoryStore::new()), Remote(MemoryLedger::new())),
        body(),
    )
    .await;
}

#[tokio::test]
async fn the_stack_is_a_service_of_tonic_bodies() {
    let body = || tonic::body::Body::new(Full::from(PROMPT));
    runs(governed!(MemoryStore::new(), MemoryLedger::new()), body()).await;
    runs(
        governed!(Remote(MemoryStore::new()), Remote(MemoryLedger::new())),
        body(),
    )
    .await;
}

#[tokio::test]
async fn the_stack_is_a_route_of_an_axum_router() {
    let governed = governed!(Remote(MemoryStore::new()), Remote(MemoryLedger::new()));
    let app = axum::Router::new().route_service("/v1/{*path}", governed);
    runs(app, axum::body::Body::from(PROMPT)).await;
}

#[tokio::test]
async fn each_layer_stacks_on_a_router_of_handlers() {
    let prices = Prices::none();
    let app = axum::Router::new()
        .route("/v1/chat/completions", axum::routing::post(async || "hello"))
        .layer(UsageLayer::new(&prices))
        .layer(TtfbWatchdogLayer::new())
        .layer(failover())
        .layer(budget(MemoryLedger::new()))
        .layer(budget(Remote(MemoryLedger::new())))
        .layer(rate_limit(MemoryStore::new()))
        .layer(rate_limit(Remote(MemoryStore::new())))
        .layer(EstimateLayer::new(&prices));
    let response = app
        .oneshot(request(axum::body::Body::from(PROMPT)))
        .await
        .unwrap();
    assert_eq!(
        response.status(),
        404,
        "no model has a price, and budgets refuse that by default"
    );
}

#[tokio::test]
async fn the_stack_serves_a_bare_hyper_connection() {
    let governed = governed!(MemoryStore::new(), MemoryLedger::new());
    let caller = |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Caller::new("acme").unwrap());
        request
    };
    let service = ServiceBuilder::new().map_request(caller).service(governed);
    let (client, server) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let connection = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
        let service = hyper_util::service::TowerToHyperService::new(service);
        connection
            .serve_connection(hyper_util::rt::TokioIo::new(server), service)
            .await
            .unwrap();
    });
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(client))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::post("/v1/chat/completions").header("host", "gateway");
    let response = client
        .send_request(request.body(Full::<Bytes>::from(PROMPT)).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 503);
}

/// A gateway behind a gateway: an inner stack that is a candidate's service.
#[tokio::test]
async fn a_stack_is_the_client_of_another() {
    let inner = governed!(MemoryStore::new(), MemoryLedger::new());
    let outer = ServiceBuilder::new()
        .layer(rate_limit(MemoryStore::new()))
        .layer(failover())
        .service(inner);
    runs(outer, Full::<Bytes>::from(PROMPT)).await;
}
