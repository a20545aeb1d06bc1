//! What the tests share.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)] // each test file uses its part

use http::{Request, Response};
use http_body::Body;
use std::{fmt::Debug, time::Duration};
use testkit::ScriptedBody;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ai_core::{Phases, RefusedBy, Scope, Silence};
use tower_ttfb_watchdog::{RequestBody, ResponseBody, TtfbWatchdogLayer};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);

pub fn request(body: ScriptedBody) -> Request<ScriptedBody> {
    Request::post("/anything").body(body).unwrap()
}

pub fn short_request() -> Request<ScriptedBody> {
    request(ScriptedBody::of(["prompt"]))
}

/// Calls `inner` behind the watchdog; tells the answer and how long it took.
pub async fn call<S, R>(
    layer: TtfbWatchdogLayer,
    inner: S,
    request: Request<ScriptedBody>,
) -> (Response<ResponseBody<R>>, Duration)
where
    S: Service<Request<RequestBody<ScriptedBody>>, Response = Response<R>>,
    S::Error: Debug,
    R: Body<Data = bytes::Bytes> + Unpin,
    R::Error: Into<tower_ai_core::BoxError>,
{
    let start = Instant::now();
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    (response, start.elapsed())
}

/// The silence for which the watchdog gave up, as it is printed.
#[track_caller]
pub fn silence<B>(response: &Response<B>) -> String {
    assert_eq!(
        response.status(),
        504,
        "the watchdog did not give up: {:?}",
        response.extensions()
    );
    let by = response
        .extensions()
        .get::<RefusedBy>()
        .expect("it says that it answered by itself");
    assert_eq!(by.scope, Scope::Attempt);
    response
        .extensions()
        .get::<Silence>()
        .expect("it says which limit fired")
        .to_string()
}

/// A client that tells the phases of each request: `script` writes them.
pub fn wire<F>(
    script: impl Fn(Phases, RequestBody<ScriptedBody>) -> F + Clone,
) -> impl Service<Request<RequestBody<ScriptedBody>>, Response = Response<ScriptedBody>, Error = String>
where
    F: Future<Output = Result<Response<ScriptedBody>, String>>,
{
    service_fn(move |request: Request<RequestBody<ScriptedBody>>| {
        let phases = request.extensions().get::<Phases>().unwrap().clone();
        phases.claim();
        script(phases, request.into_body())
    })
}

pub fn ok(body: ScriptedBody) -> Result<Response<ScriptedBody>, String> {
    Ok(Response::new(body))
}
