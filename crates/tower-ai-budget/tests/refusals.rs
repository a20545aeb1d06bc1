//! What a refused caller reads, in each shape.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use std::{convert::Infallible, future::ready, time::Duration};
use support::{DAY, call_costing, json, midnight};
use testkit::{ScriptedBody, SetClock};
use tower::{Layer, ServiceExt, service_fn};
use tower_ai_budget::{Budget, BudgetLayer, ExhaustedStatus, MemoryLedger, ResponseBody};
use tower_ai_core::{NanoUsd, RefusalFormat, usd};

/// A refusal one and a half seconds before midnight, with 0.5000015 USD spent and 0.75 USD reserved of 2 USD.
async fn refused(cost: NanoUsd, format: RefusalFormat) -> Response<ResponseBody<ScriptedBody, MemoryLedger>> {
    let clock = SetClock::at(midnight() + DAY - Duration::from_millis(1_500)).clock();
    let layer = BudgetLayer::new(MemoryLedger::new().wall_clock(clock), Budget::daily(usd!(2))).unwrap();
    let layer = match format {
        RefusalFormat::Anthropic => layer.exhausted_status(ExhaustedStatus::PaymentRequired),
        _ => layer,
    };
    let inner = service_fn(|_: Request<ScriptedBody>| {
        ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
            "an answer",
        ]))))
    });
    drop(layer.layer(inner).oneshot(call_costing(usd!(0.500_001_5))).await);
    let _open = layer
        .layer(inner)
        .oneshot(call_costing(usd!(0.75)))
        .await
        .unwrap();
    let mut request = call_costing(cost);
    request.extensions_mut().insert(format);
    layer.layer(inner).oneshot(request).await.unwrap()
}

#[tokio::test]
async fn over_budget_as_problem_json_with_exact_decimals() {
    let response = refused(usd!(0.80), RefusalFormat::Problem).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.headers()["retry-after"], "2");
    assert_eq!(response.headers()["x-should-retry"], "false");
    let body = json(response).await;
    assert_eq!(body["error"], "ai_daily_budget_exceeded");
    assert_eq!(body["retry_after"], 2);
    assert_eq!(body["used_cents"].to_string(), "125.00015");
    assert_eq!(body["limit_cents"].to_string(), "200");
    assert_eq!(
        body["detail"],
        "the daily budget of 2.00 USD has no room for a call that may cost 0.80 USD: 0.5000015 USD spent and 0.75 \
         USD reserved by calls under way; it resets at 2025-12-02T00:00:00+00:00[UTC]"
    );
}

#[tokio::test]
async fn over_budget_for_an_openai_client() {
    let response = refused(usd!(0.80), RefusalFormat::OpenAi).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-should-retry"]),
        (429, &"false".parse().unwrap())
    );
    let body = json(response).await;
    assert_eq!(body["error"]["code"], "ai_daily_budget_exceeded");
    assert_eq!(body["error"]["type"], "insufficient_quota");
}

#[tokio::test]
async fn over_budget_for_an_anthropic_client_as_402() {
    let response = refused(usd!(0.80), RefusalFormat::Anthropic).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-should-retry"]),
        (402, &"false".parse().unwrap())
    );
    let body = json(response).await;
    assert_eq!(body["error"]["details"]["error_code"], "ai_daily_budget_exceeded");
    assert_eq!(body["error"]["type"], "billing_error");
}

#[tokio::test]
async fn over_budget_for_a_grpc_client() {
    let response = refused(usd!(0.80), RefusalFormat::Grpc).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(response.headers()["ai-error-code"], "ai_daily_budget_exceeded");
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
    assert!(http_body::Body::is_end_stream(response.body()));
}

#[tokio::test]
async fn too_expensive_tells_estimate_and_cap_and_no_time() {
    let response = refused(usd!(0.800_000_05), RefusalFormat::Problem).await;
    assert_eq!(response.status(), 413);
    assert_eq!(response.headers()["x-should-retry"], "false");
    assert!(!response.headers().contains_key("retry-after"));
    let body = json(response).await;
    assert_eq!(body["error"], "prompt_too_expensive");
    assert_eq!(body["estimated_cents"].to_string(), "80.000005");
    assert_eq!(body["cap_cents"].to_string(), "80");
}

#[tokio::test]
async fn the_code_of_a_longer_window_names_it() {
    for (budget, code) in [
        (Budget::weekly(usd!(0.8)), "ai_weekly_budget_exceeded"),
        (Budget::monthly(usd!(0.8)), "ai_monthly_budget_exceeded"),
    ] {
        let layer = BudgetLayer::new(MemoryLedger::new(), budget).unwrap();
        let inner = service_fn(|_: Request<ScriptedBody>| {
            ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
                "an answer",
            ]))))
        });
        drop(layer.layer(inner).oneshot(call_costing(usd!(0.8))).await);
        let response = layer.layer(inner).oneshot(call_costing(usd!(0.8))).await.unwrap();
        assert_eq!(json(response).await["error"], code);
    }
}
