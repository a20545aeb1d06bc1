//! The whole stack, and a caller who leaves: whatever state the call is in, what an upstream may bill is charged, and
//! nothing stays reserved.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use std::time::Duration;
use testkit::{Answer, ProbeService, ScriptedBody, anthropic::Message, openai::Chat};
use tokio::time::timeout;
use tower::{ServiceBuilder, ServiceExt};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{Caller, NanoUsd, usd};
use tower_ai_failover::{FailoverLayer, Routes, Upstream};
use tower_ai_usage::{EstimateLayer, Price, Prices, UsageLayer};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
const CHAT_STREAM: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
const MESSAGES: &str =
    r#"{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hello"}]}"#;

/// What is spent when an upstream answers so and the caller leaves after a while.
async fn spent_after_leaving(
    path: &str,
    prompt: &'static str,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> NanoUsd {
    let prices = Prices::none().with_price("m", Price::per_million(usd!(1), usd!(10)));
    let budget = BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(2))).unwrap();
    let upstreams = [
        Upstream::openai("openai", "http://a.example/v1"),
        Upstream::anthropic("anthropic", "http://b.example"),
    ];
    let stack = ServiceBuilder::new()
        .layer(EstimateLayer::new(&prices))
        .layer(budget.clone())
        .layer(FailoverLayer::new(Routes::new().model("m", upstreams)).unwrap())
        .layer(UsageLayer::new(&prices))
        .layer(TtfbWatchdogLayer::new().first_byte(Duration::from_secs(60)))
        .service(ProbeService::new(move |_| answer()));
    let caller = Caller::new("acme").unwrap();
    let request = Request::post(path).extension(caller.clone());
    let request = request.body(Full::<Bytes>::from(prompt)).unwrap();

    let call = async {
        let response = stack.oneshot(request).await.unwrap();
        let _ = response.into_body().collect().await;
    };
    assert!(
        timeout(Duration::from_secs(5), call).await.is_err(),
        "the caller leaves first"
    );

    let balance = budget.balance(Some(&caller)).await.unwrap();
    assert_eq!(balance.reserved.as_usd(), Some(NanoUsd::ZERO));
    balance.spent.as_usd().unwrap()
}

fn events(body: ScriptedBody) -> Answer {
    Answer::ok(body.forever()).header("content-type", "text/event-stream")
}

fn first_frames(frames: Vec<Bytes>, count: usize) -> ScriptedBody {
    ScriptedBody::of(frames.into_iter().take(count))
}

#[tokio::test(start_paused = true)]
async fn leaving_before_any_answer_costs_the_input() {
    let spent = spent_after_leaving("/v1/chat/completions", CHAT, Answer::never).await;
    assert!(spent > NanoUsd::ZERO);
}

#[tokio::test(start_paused = true)]
async fn leaving_while_an_answer_is_held_back_costs_no_less_than_leaving_before_it() {
    let before = spent_after_leaving("/v1/chat/completions", CHAT_STREAM, Answer::never).await;
    let role_only = || events(first_frames(Chat::new(["hello"]).stream().frames, 1));
    let held = spent_after_leaving("/v1/chat/completions", CHAT_STREAM, role_only).await;
    assert!(held >= before && before > NanoUsd::ZERO, "{held} after {before}");

    let started = || events(first_frames(Message::new(["hello"]).stream().frames, 1));
    let held = spent_after_leaving("/v1/messages", MESSAGES, started).await;
    assert!(held > NanoUsd::ZERO);

    let half = || {
        let document = Chat::new(["hello"]).completion().bytes();
        let half = ScriptedBody::of([document.slice(..document.len() / 2)]).forever();
        Answer::ok(half).header("content-type", "application/json")
    };
    let held = spent_after_leaving("/v1/chat/completions", CHAT, half).await;
    assert!(held > NanoUsd::ZERO);
}

#[tokio::test(start_paused = true)]
async fn leaving_in_the_middle_costs_the_input_and_what_was_passed_on() {
    let before = spent_after_leaving("/v1/chat/completions", CHAT_STREAM, Answer::never).await;
    let some = || {
        events(first_frames(
            Chat::new(["one ", "two ", "three "]).stream().frames,
            3,
        ))
    };
    let middle = spent_after_leaving("/v1/chat/completions", CHAT_STREAM, some).await;
    assert!(middle > before, "{middle} after {before}");
}

#[tokio::test(start_paused = true)]
async fn leaving_between_attempts_that_are_not_billed_costs_nothing() {
    let failing = || Answer::from(testkit::openai::rate_limited(10));
    let spent = spent_after_leaving("/v1/chat/completions", CHAT, failing).await;
    assert_eq!(spent, NanoUsd::ZERO);
}
