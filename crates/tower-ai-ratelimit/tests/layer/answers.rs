//! What callers are told: headers and refusals.

use crate::support::*;
use std::time::Duration;
use testkit::{Answer, ProbeService, ScriptedBody};
use tokio::time::advance;
use tower_ai_core::{Caller, ClientAddr, Estimate, LayerKind, Plans, Quota, RefusalKind, RefusedBy, Scope};
use tower_ai_ratelimit::{Limits, MINUTE, MemoryStore, MissingKey, RateLimitLayer, SECOND, bucket};
use tower_layer::Layer;

fn layer(limits: impl Into<Plans<Limits>>) -> RateLimitLayer<MemoryStore> {
    RateLimitLayer::new(MemoryStore::new(), limits)
        .unwrap()
        .wall_clock(wall_clock(1_716_000_058))
}

fn starter() -> Limits {
    Limits::per_tenant().requests("rpm", bucket(100).refill(10).per(SECOND))
}

fn requests_and_tokens() -> Limits {
    Limits::per_tenant()
        .tokens("tpm", bucket(40_000).refill(40_000).per(MINUTE))
        .requests("rpm", bucket(100).refill(10).per(SECOND))
}

fn asking(caller: Caller, input: u64, output: u64) -> http::Request<ScriptedBody> {
    let mut request = plain(caller);
    request
        .extensions_mut()
        .insert(Estimate::given(input, output).unwrap());
    request
}

#[tokio::test(start_paused = true)]
async fn the_common_headers_tell_burst_rest_and_when_it_is_full() {
    let service = limited(&layer(starter()));
    passed(&service, 26, || plain(tenant("acme"))).await;
    let response = send(&service, plain(tenant("acme"))).await;
    assert_eq!(header(&response, "X-RateLimit-Limit"), "100");
    assert_eq!(header(&response, "X-RateLimit-Remaining"), "73");
    // Full in 2.7 s from …57.5: at …60.2, rounded up.
    assert_eq!(header(&response, "X-RateLimit-Reset"), "1716000061");
    assert!(!response.headers().contains_key("retry-after"));
}

#[tokio::test(start_paused = true)]
async fn openai_clients_find_requests_and_tokens() {
    let service = limited(&layer(requests_and_tokens()));
    let response = send(&service, asking(tenant("acme"), 900, 100)).await;
    for (name, value) in [
        ("x-ratelimit-limit-requests", "100"),
        ("x-ratelimit-remaining-requests", "99"),
        ("x-ratelimit-reset-requests", "100ms"),
        ("x-ratelimit-limit-tokens", "40000"),
        ("x-ratelimit-remaining-tokens", "39000"),
        ("x-ratelimit-reset-tokens", "1.5s"),
        ("x-ratelimit-limit", "100"), // the first limit of requests
    ] {
        assert_eq!(header(&response, name), value, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_ietf_headers_tell_all_limits_and_can_be_switched_off() {
    let service = limited(&layer(requests_and_tokens()));
    let response = send(&service, asking(tenant("acme"), 900, 100)).await;
    assert_eq!(
        header(&response, "RateLimit-Policy"),
        r#""tpm";q=40000;w=60;qu="tokens", "rpm";q=100;w=10"#
    );
    assert_eq!(
        header(&response, "RateLimit"),
        r#""tpm";r=39000;t=1, "rpm";r=99;t=1"#
    );

    let service = limited(&layer(requests_and_tokens()).ietf_headers(false));
    let response = send(&service, asking(tenant("acme"), 900, 100)).await;
    assert!(!response.headers().contains_key("ratelimit"));
    assert!(!response.headers().contains_key("ratelimit-policy"));
    assert_eq!(header(&response, "x-ratelimit-remaining"), "99");
}

#[tokio::test(start_paused = true)]
async fn times_are_told_when_the_head_leaves_and_the_rest_as_of_the_decision() {
    let slow = ProbeService::new(|_| Answer::ok(ScriptedBody::new()).after(Duration::from_millis(600)));
    let service = layer(Limits::per_tenant().requests("rpm", bucket(10).refill(1).per(SECOND))).layer(slow);
    let response = send(&service, plain(tenant("acme"))).await;
    assert_eq!(header(&response, "x-ratelimit-remaining"), "9");
    assert_eq!(header(&response, "x-ratelimit-reset-requests"), "400ms");
    let quota = response.extensions().get::<Quota>().unwrap();
    assert_eq!(quota.limits[0].reset_after, SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_an_inner_layer_carries_the_headers_and_keeps_its_retry_after() {
    let failing = ProbeService::new(|_| {
        Answer::status(503, ScriptedBody::new())
            .header("retry-after", "7")
            .header("x-ratelimit-remaining", "9999")
            .header("x-ratelimit-remaining-tokens", "8888")
            .header("anthropic-ratelimit-tokens-remaining", "7777")
    });
    let response = send(&layer(starter()).layer(failing), plain(tenant("acme"))).await;
    assert_eq!(response.status(), 503);
    assert_eq!(header(&response, "retry-after"), "7");
    let remaining: Vec<_> = response
        .headers()
        .get_all("x-ratelimit-remaining")
        .iter()
        .collect();
    assert_eq!(remaining, ["99"], "ours replaces that of the upstream");
    assert!(!response.headers().contains_key("x-ratelimit-remaining-tokens"));
    assert!(
        !response
            .headers()
            .contains_key("anthropic-ratelimit-tokens-remaining")
    );
}

#[tokio::test(start_paused = true)]
async fn a_plain_caller_is_refused_by_problem_json_with_the_exact_wait() {
    let service = limited(&layer(reference()));
    assert_eq!(passed(&service, 20, || plain(on_plan("acme", "free"))).await, 20);
    advance(Duration::from_millis(100)).await;
    let response = send(&service, plain(on_plan("acme", "free"))).await;
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "retry-after"), "1");
    assert_eq!(header(&response, "retry-after-ms"), "400");
    assert_eq!(header(&response, "x-ratelimit-limit"), "20");
    assert_eq!(header(&response, "x-ratelimit-remaining"), "0");
    assert_eq!(header(&response, "ratelimit"), r#""rpm";r=0;t=1"#);
    let refused = response.extensions().get::<RefusedBy>().unwrap();
    assert_eq!(
        (refused.layer, refused.scope),
        (LayerKind::RateLimit, Scope::Caller)
    );
    assert_eq!(refused.retry_after, Some(Duration::from_millis(400)));
    let quota = response.extensions().get::<Quota>().unwrap();
    assert_eq!(quota.plan.as_deref(), Some("free"));
    assert!(quota.limits[0].refused);
    assert_eq!(quota.limits[0].retry_after, Some(Duration::from_millis(400)));
    let body = json(response).await;
    assert_eq!(body["error"], "rate_limit_exceeded");
    assert_eq!(body["detail"], "rate limit exceeded");
    assert_eq!(body["retry_after"], 1);
}

fn reference() -> Plans<Limits> {
    Plans::fallback("free").plan(
        "free",
        Limits::per_tenant().requests("rpm", bucket(20).refill(2).per(SECOND)),
    )
}

#[tokio::test(start_paused = true)]
async fn a_refusal_speaks_the_dialect_of_the_caller() {
    let service = limited(&layer(
        Limits::in_all().requests("rpm", bucket(1).refill(1).per(MINUTE)),
    ));
    passed(&service, 1, || plain(None)).await;

    let openai = json(send(&service, at("/v1/chat/completions", None)).await).await;
    assert_eq!(openai["error"]["code"], "rate_limit_exceeded");
    assert_eq!(openai["error"]["type"], "rate_limit_error");
    assert_eq!(openai["error"]["message"], "rate limit exceeded");

    let anthropic = json(send(&service, at("/v1/messages", None)).await).await;
    assert_eq!(anthropic["error"]["details"]["error_code"], "rate_limit_exceeded");

    let mut call = at("/pkg.Service/Method", None);
    call.headers_mut()
        .insert("content-type", "application/grpc".parse().unwrap());
    let grpc = send(&service, call).await;
    assert_eq!(grpc.status(), 200);
    assert_eq!(header(&grpc, "grpc-status"), "8");
    assert_eq!(
        header(&grpc, "grpc-message"),
        "rate_limit_exceeded: rate limit exceeded"
    );
    assert_eq!(header(&grpc, "grpc-retry-pushback-ms"), "60000");
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_of_the_limits_that_refuse_is_told() {
    let limits = Limits::per_tenant()
        .requests("fast", bucket(1).refill(1).per(SECOND))
        .requests("slow", bucket(1).refill(1).per(MINUTE));
    let service = limited(&layer(limits));
    passed(&service, 1, || plain(tenant("acme"))).await;
    let response = send(&service, plain(tenant("acme"))).await;
    assert_eq!(header(&response, "retry-after"), "60");
}

#[tokio::test(start_paused = true)]
async fn what_can_never_fit_is_told_so_without_a_hint_to_retry_and_costs_nothing() {
    let service = limited(&layer(requests_and_tokens()));
    let response = send(&service, asking(tenant("acme"), 40_000, 1)).await;
    assert_eq!(response.status(), 413);
    assert!(!response.headers().contains_key("retry-after"));
    assert_eq!(header(&response, "x-ratelimit-remaining"), "100");
    assert_eq!(header(&response, "x-ratelimit-remaining-tokens"), "40000");
    let refused = response.extensions().get::<RefusedBy>().unwrap();
    assert_eq!(refused.kind, RefusalKind::TooLarge);
    let body = json(response).await;
    assert_eq!(body["error"], "request_exceeds_limit");
    assert_eq!(
        body["detail"],
        "the request needs 40001 of limit \"tpm\", which holds 40000"
    );
    assert_eq!(
        send(&service, asking(tenant("acme"), 40_000, 0)).await.status(),
        200
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_caller_is_refused_and_never_reaches_the_inner_service() {
    let probe = ok();
    let service = layer(starter()).layer(probe.clone());
    let response = send(&service, plain(None)).await;
    assert_eq!(response.status(), 401);
    assert!(!response.headers().contains_key("x-ratelimit-limit"));
    assert_eq!(json(response).await["error"], "missing_caller");
    assert_eq!(probe.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_caller_can_share_one_account() {
    let limits = Limits::per_tenant().requests("rpm", bucket(3).refill(1).per(SECOND));
    let service = limited(&layer(limits).on_missing_key(MissingKey::Anonymous));
    assert_eq!(passed(&service, 5, || plain(None)).await, 3);
    assert_eq!(
        passed(&service, 5, || plain(tenant("anonymous"))).await,
        3,
        "a tenant's name is no key to it"
    );
}

#[tokio::test(start_paused = true)]
async fn limits_whose_key_is_missing_can_be_skipped() {
    let limits = Limits::per_client_addr()
        .requests("address", bucket(2).refill(1).per(SECOND))
        .and(Limits::in_all().requests("all", bucket(9).refill(1).per(SECOND)));
    let service = limited(&layer(limits).on_missing_key(MissingKey::Skip));
    let response = send(&service, plain(None)).await;
    assert_eq!(header(&response, "ratelimit-policy"), r#""all";q=9;w=9"#);
    assert_eq!(header(&response, "ratelimit"), r#""all";r=8;t=1"#);

    let from_home = || {
        let mut request = plain(None);
        request
            .extensions_mut()
            .insert(ClientAddr("192.0.2.7".parse().unwrap()));
        request
    };
    assert_eq!(passed(&service, 5, from_home).await, 2);

    let unlimited = limited(&layer(starter()).on_missing_key(MissingKey::Skip));
    let response = send(&unlimited, plain(None)).await;
    assert!(
        response.extensions().get::<Quota>().is_none(),
        "nothing was decided"
    );
    assert!(!response.headers().contains_key("x-ratelimit-limit"));
}
