//! What the tests of this crate share.

use http::{Request, Response};
use serde_json::Value;
use std::{
    pin::Pin,
    time::{Duration, SystemTime},
};
use testkit::{Answer, ProbeService, ScriptedBody};
use tower::ServiceExt;
use tower_ai_core::{Caller, Step, WallClock};
use tower_ai_ratelimit::{
    Correction, MemoryStore, PerLimit, RateLimit, RateLimitLayer, ResponseBody, Scope, Store, Take, Verdict,
};
use tower_layer::Layer;

pub(crate) type Limited<St = MemoryStore> = RateLimit<ProbeService, St>;
pub(crate) type Answered<St = MemoryStore> = Response<ResponseBody<ScriptedBody, St>>;

/// An inner service that always answers 200.
pub(crate) fn ok() -> ProbeService {
    ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hello ", "world"])))
}

pub(crate) fn limited<St: Store>(layer: &RateLimitLayer<St>) -> Limited<St> {
    layer.layer(ok())
}

/// A request of a plain JSON caller.
pub(crate) fn plain(caller: impl Into<Option<Caller>>) -> Request<ScriptedBody> {
    at("/api/summarize", caller)
}

pub(crate) fn at(path: &str, caller: impl Into<Option<Caller>>) -> Request<ScriptedBody> {
    let mut request = Request::post(path).body(ScriptedBody::of(["{}"])).unwrap();
    if let Some(caller) = caller.into() {
        request.extensions_mut().insert(caller);
    }
    request
}

pub(crate) fn tenant(name: &str) -> Caller {
    Caller::new(name).unwrap()
}

pub(crate) fn on_plan(name: &str, plan: &str) -> Caller {
    tenant(name).plan(plan).unwrap()
}

pub(crate) async fn send<St: Store>(service: &Limited<St>, request: Request<ScriptedBody>) -> Answered<St> {
    service.clone().oneshot(request).await.unwrap()
}

/// How many of `count` requests pass.
pub(crate) async fn passed<St: Store>(
    service: &Limited<St>,
    count: usize,
    request: impl Fn() -> Request<ScriptedBody>,
) -> usize {
    let mut passed = 0;
    for _ in 0..count {
        passed += usize::from(send(service, request()).await.status() == 200);
    }
    passed
}

/// One request of each of 4,096 tenants.
#[cfg(any(feature = "tracing", feature = "metrics"))]
pub(crate) async fn flood(service: &Limited) {
    for n in 0..4_096 {
        send(service, plain(tenant(&format!("tenant-{n}")))).await;
    }
}

pub(crate) fn header<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value.unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
}

pub(crate) async fn json<St: Store>(response: Answered<St>) -> Value {
    use http_body_util::BodyExt;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// A wall clock that stands at half past the second before `seconds`.
pub(crate) fn wall_clock(seconds: u64) -> WallClock {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) - Duration::from_millis(500);
    WallClock::from_fn(move || now)
}

/// A store that cannot tell, at once or after a round trip.
#[derive(Clone, Debug)]
pub(crate) struct Down {
    pub(crate) at_once: bool,
}

impl Store for Down {
    type Key = ();
    type Future = Pin<Box<dyn Future<Output = Verdict> + Send>>;

    fn key(&self, _: Scope<'_>) {}

    fn take(&self, _: &PerLimit<Take<'_, ()>>) -> Step<Verdict, Self::Future> {
        let verdict = Verdict::Unavailable { reason: "timeout" };
        if self.at_once {
            Step::Now(verdict)
        } else {
            Step::Later(Box::pin(async { verdict }))
        }
    }

    fn correct(&self, _: &PerLimit<Correction<'_, ()>>) {}
}
