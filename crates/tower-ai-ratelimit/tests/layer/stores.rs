//! Stores that answer later, or not.

use crate::support::*;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use testkit::{Answer, Contract, ProbeService, ScriptedBody};
use tower_ai_core::{Call, Estimate, LayerKind, Plans, Quota, Step, TokenCounts, UsageState};
use tower_ai_ratelimit::{
    Correction, DAY, Limits, MemoryKey, MemoryStore, Outage, PerLimit, RateLimitLayer, SECOND, Scope, Store,
    Take, Verdict, bucket,
};
use tower_layer::Layer;

/// A memory store that counts corrections.
#[derive(Clone, Debug, Default)]
struct Counted {
    memory: MemoryStore,
    corrections: Arc<AtomicUsize>,
}

impl Store for Counted {
    type Key = MemoryKey;
    type Future = <MemoryStore as Store>::Future;

    fn key(&self, scope: Scope<'_>) -> MemoryKey {
        self.memory.key(scope)
    }

    fn take(&self, set: &PerLimit<Take<'_, MemoryKey>>) -> Step<Verdict, Self::Future> {
        self.memory.take(set)
    }

    fn correct(&self, corrections: &PerLimit<Correction<'_, MemoryKey>>) {
        self.corrections.fetch_add(1, Ordering::Relaxed);
        self.memory.correct(corrections);
    }
}

/// The same behind a round trip.
#[derive(Clone, Debug, Default)]
struct Remote(Counted);

impl Store for Remote {
    type Key = MemoryKey;
    type Future = Pin<Box<dyn Future<Output = Verdict> + Send>>;

    fn key(&self, scope: Scope<'_>) -> MemoryKey {
        self.0.key(scope)
    }

    fn take(&self, set: &PerLimit<Take<'_, MemoryKey>>) -> Step<Verdict, Self::Future> {
        let (store, set) = (self.0.clone(), owned(set));
        Step::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let takes = set.iter().map(|(key, limit, cost)| Take {
                key: *key,
                limit,
                cost: *cost,
            });
            match store.take(&takes.collect()) {
                Step::Now(verdict) => verdict,
                Step::Later(verdict) => verdict.await,
            }
        }))
    }

    fn correct(&self, corrections: &PerLimit<Correction<'_, MemoryKey>>) {
        self.0.correct(corrections);
    }
}

fn owned(set: &PerLimit<Take<'_, MemoryKey>>) -> Vec<(MemoryKey, tower_ai_ratelimit::Limit, u64)> {
    set.iter()
        .map(|take| (take.key, take.limit.clone(), take.cost))
        .collect()
}

fn wide() -> Limits {
    Limits::per_tenant()
        .requests("rpd", bucket(1_000_000).refill(1_000).per(DAY))
        .tokens("tpd", bucket(1_000_000).refill(1_000).per(DAY))
}

/// A call of which 150 tokens are reserved and 10 used.
fn metered_call() -> http::Request<ScriptedBody> {
    let call = Call::default();
    call.enter(LayerKind::Usage);
    call.set_estimate(Estimate::given(100, 50).unwrap());
    call.meter().update(0, |attempt| {
        attempt.counts = TokenCounts::new(7, 3);
        attempt.advance(UsageState::Reported);
    });
    let mut request = plain(tenant("acme"));
    request.extensions_mut().insert(call);
    request
}

fn contract<St: Store>(store: St, counted: Counted) -> Contract {
    Contract::new(RateLimitLayer::new(store, wide()).unwrap())
        .request(metered_call)
        .refused_request(|| plain(None))
        .settlements(move || counted.corrections.load(Ordering::Relaxed))
}

/// The contract while the limit of one tenant is used up.
async fn exhausted<St: Store>(store: St) -> Contract {
    let narrow = Limits::per_tenant().requests("rpd", bucket(1).refill(1).per(DAY));
    let plans = Plans::fallback("wide")
        .plan("wide", wide())
        .plan("narrow", narrow);
    let layer = RateLimitLayer::new(store, plans).unwrap();
    let used_up = || plain(on_plan("globex", "narrow"));
    assert_eq!(passed(&limited(&layer), 2, used_up).await, 1);
    Contract::new(layer)
        .request(|| plain(tenant("acme")))
        .refused_request(used_up)
}

testkit::contract! {
    decided_at_once: {
        let store = Counted::default();
        contract(store.clone(), store)
    }
}

testkit::contract! {
    decided_later: {
        let store = Remote::default();
        contract(store.clone(), store.0)
    }
}

testkit::contract!(exhausted_at_once: exhausted(MemoryStore::new()).await);
testkit::contract!(exhausted_later: exhausted(Remote::default()).await);

testkit::contract! {
    undecided: Contract::new(RateLimitLayer::new(Down { at_once: false }, wide()).unwrap())
        .request(|| plain(tenant("acme")))
}

#[tokio::test(start_paused = true)]
async fn a_remote_store_decides_as_memory_does() {
    let limits = Limits::per_tenant().requests("rps", bucket(2).refill(1).per(SECOND));
    let service = limited(&RateLimitLayer::new(Remote::default(), limits).unwrap());
    assert_eq!(passed(&service, 5, || plain(tenant("acme"))).await, 2);
    let refused = send(&service, at("/v1/messages", tenant("acme"))).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(
        json(refused).await["error"]["details"]["error_code"],
        "rate_limit_exceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_lets_requests_pass_and_no_numbers_are_invented() {
    for at_once in [true, false] {
        let layer = RateLimitLayer::new(Down { at_once }, wide()).unwrap();
        let upstream = |_| Answer::ok(ScriptedBody::new()).header("x-ratelimit-remaining-requests", "9999");
        let response = send(&layer.layer(ProbeService::new(upstream)), plain(tenant("acme"))).await;
        assert_eq!(response.status(), 200);
        let named = |name: &http::HeaderName| name.as_str().contains("ratelimit");
        assert!(!response.headers().keys().any(named), "{:?}", response.headers());
        assert!(response.extensions().get::<Quota>().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_can_close() {
    for at_once in [true, false] {
        let layer = RateLimitLayer::new(Down { at_once }, wide()).unwrap();
        let probe = ok();
        let service = layer.outage(Outage::Closed).layer(probe.clone());
        let response = send(&service, plain(tenant("acme"))).await;
        assert_eq!(response.status(), 503);
        assert_eq!(header(&response, "retry-after"), "1");
        assert_eq!(json(response).await["error"], "limiter_unavailable");
        assert_eq!(probe.calls(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_of_an_inner_limiter_stay_when_the_outer_one_cannot_tell() {
    let inner = RateLimitLayer::new(MemoryStore::new(), wide()).unwrap();
    let outer = RateLimitLayer::new(Down { at_once: true }, wide()).unwrap();
    let stack = outer.layer(inner.layer(ok()));
    let response = tower::ServiceExt::oneshot(stack, plain(tenant("acme")))
        .await
        .unwrap();
    assert_eq!(header(&response, "x-ratelimit-remaining"), "999999");
}
