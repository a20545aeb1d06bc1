//! The answers that the layer gives by itself.

use crate::support::*;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use testkit::{Answer, ProbeService, ScriptedBody, openai};
use tokio::time::Instant;
use tower::ServiceExt;
use tower_ai_core::{RefusedBy, Scope};
use tower_layer::Layer;

async fn json(response: Response<Body>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

fn retry_after(response: &Response<Body>) -> u64 {
    response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_upstreams_exhausted_is_a_503_with_a_hint_and_the_trace() {
    let probe = ProbeService::new(|_| Answer::error("broke"));
    let response = send(&layer(2).attempts(2), &probe, chat(CHAT)).await;
    assert_eq!(response.status(), 503);
    assert_eq!(retry_after(&response), 1);
    assert_eq!(reasons(&response), ["a reset", "b reset"]);
    let refused = response.extensions().get::<RefusedBy>().unwrap();
    assert_eq!(
        (refused.code, refused.scope),
        ("all_upstreams_exhausted", Scope::Caller)
    );
    let body = json(response).await;
    assert_eq!(body["error"]["code"], "all_upstreams_exhausted");
    assert_eq!(body["error"]["message"], "all upstreams exhausted");
}

#[tokio::test(start_paused = true)]
async fn when_every_candidate_said_429_so_do_we_with_the_smallest_wait() {
    let waits = [90u64, 40, 70];
    let probe = ProbeService::new(move |n| Answer::from(openai::rate_limited(waits[n])).after(SECOND));
    let start = Instant::now();
    let response = send(&layer(3), &probe, chat(CHAT)).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (429, 3));
    assert_eq!(start.elapsed(), SECOND * 3, "no wait of these fits");
    assert_eq!(
        retry_after(&response),
        39,
        "a second has passed since it was told"
    );
    assert_eq!(json(response).await["error"]["type"], "rate_limit_error");
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_otherwise_makes_it_a_503() {
    let probe = scripted([
        Answer::from(openai::rate_limited(50)),
        openai::server_error().into(),
    ]);
    let response = send(&layer(2).attempts(2), &probe, chat(CHAT)).await;
    assert_eq!(response.status(), 503);
    assert_eq!(retry_after(&response), 50);
}

#[tokio::test(start_paused = true)]
async fn a_wait_above_a_minute_is_no_business_of_an_automatic_retry() {
    let probe = ProbeService::new(|_| Answer::from(openai::rate_limited(3000)));
    let response = send(&layer(1), &probe, chat(CHAT)).await;
    assert_eq!(
        (retry_after(&response), &response.headers()["x-should-retry"]),
        (3000, &"false".parse().unwrap())
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_account_is_not_asked_again() {
    let probe = ProbeService::new(|_| Answer::from(openai::quota_exhausted()));
    let response = send(&layer(2), &probe, chat(CHAT)).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (429, 2));
    assert_eq!(retry_after(&response), 1);
}

#[tokio::test(start_paused = true)]
async fn an_anthropic_caller_is_answered_in_its_dialect() {
    let probe = ProbeService::new(|_| Answer::error("broke"));
    let response = send(&layer(1).attempts(1), &probe, messages(MESSAGES_STREAM)).await;
    assert_eq!(response.status(), 503);
    let body = json(response).await;
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["details"]["error_code"], "all_upstreams_exhausted");
}

#[tokio::test(start_paused = true)]
async fn a_model_without_a_route_is_a_404_and_nothing_is_sent() {
    let probe = ProbeService::new(|_| Answer::error("broke"));
    let request = chat(r#"{"model":"gpt-9","messages":[{"role":"user","content":"hi"}]}"#);
    let response = send(&layer(1), &probe, request).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (404, 0));
    assert_eq!(json(response).await["error"]["code"], "model_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_is_exhausted_without_an_attempt() {
    let probe = ProbeService::new(|_| Answer::error("broke"));
    let mut request = chat(CHAT);
    request
        .extensions_mut()
        .insert(tower_ai_core::Deadline(Instant::now().into_std()));
    let response = send(&layer(1), &probe, request).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (503, 0));
    assert_eq!(retry_after(&response), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_body_that_never_arrives_is_a_408_at_the_deadline() {
    let probe = ProbeService::new(|_| Answer::error("broke"));
    let request = Request::post("/v1/chat/completions")
        .body(ScriptedBody::of(["{"]).forever())
        .unwrap();
    let start = Instant::now();
    let response = layer(1).layer(probe.clone()).oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), probe.calls()), (408, 0));
    assert_eq!(start.elapsed(), SECOND * 540);
}

#[tokio::test(start_paused = true)]
async fn a_request_body_that_breaks_off_is_a_400() {
    let probe = ProbeService::new(|_| Answer::error("broke"));
    let request = Request::post("/v1/chat/completions")
        .body(ScriptedBody::of(["{"]).error("gone"))
        .unwrap();
    let response = layer(1).layer(probe.clone()).oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), probe.calls()), (400, 0));
}

#[tokio::test(start_paused = true)]
async fn a_single_silent_candidate_ends_before_the_deadline_and_with_time_to_tell() {
    let probe = ProbeService::new(|_| Answer::never());
    let start = Instant::now();
    let response = send(&layer(1), &probe, chat(CHAT)).await;
    assert_eq!(response.status(), 503);
    assert!(start.elapsed() <= SECOND * 540, "{:?}", start.elapsed());
}
