//! Budgets and limits under load.

use crate::support::{Answer, Gateway, config, whole};
use std::sync::Arc;
use testkit::{FaultUpstream, Gate, Reply, openai::Chat};
use tokio::task::JoinSet;

/// 1,000 tokens of answer at 10 USD a million, and nothing for the prompt: a call reserves exactly 1 cent.
const PLANS: &str = r#"
    [prices.cent]
    input_usd_per_million = "0"
    output_usd_per_million = "10.00"

    [limits.plans]
    free = { burst = 500, refill = 1 }
    [budgets.plans]
    free = { daily_usd = "0.07" }
"#;
const CALL: &str = r#"{"model":"cent","max_tokens":1000,"messages":[{"role":"user","content":"Hello"}]}"#;

#[tokio::test]
async fn of_200_calls_at_once_exactly_the_7_that_the_budget_holds_are_admitted() {
    let gate = Gate::default();
    let answer = Chat::new(["hello"]).usage(10, 12).completion();
    let upstream = FaultUpstream::start([Reply::from(answer).behind(&gate)]);
    let config = config(&upstream).replace("[prices]", &format!("{PLANS}\n[prices]"));
    let gateway = Arc::new(Gateway::with_config(&config).await);

    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let gateway = gateway.clone();
        calls.spawn(async move { gateway.ask("sk-ann", CALL).await });
    }
    // The upstream answers nobody until all 200 are decided.
    let mut refused: Vec<Answer> = Vec::new();
    while refused.len() < 193 {
        refused.push(calls.join_next().await.expect("193 are refused").unwrap());
    }
    upstream.wait_for_requests(7).await;
    let usage = gateway.usage("sk-ann").await;
    assert_eq!(
        (&usage["reserved_cents"], &usage["spent_cents"]),
        (&7.into(), &0.into())
    );
    gate.open();
    let admitted: Vec<Answer> = calls.join_all().await;

    assert!(
        refused
            .iter()
            .all(|answer| answer.status == 429 && answer.code() == "ai_daily_budget_exceeded")
    );
    assert!(admitted.iter().all(|answer| answer.status == 200), "{admitted:?}");
    let limit = |answer: &Answer| answer.header("x-ratelimit-limit").to_owned();
    assert!(
        admitted
            .iter()
            .chain(&refused)
            .all(|answer| limit(answer) == "500"),
        "all passed the limiter"
    );
    assert_eq!((admitted.len(), upstream.count()), (7, 7));
    let usage = gateway.settled_usage("sk-ann").await;
    assert_eq!(
        usage["spent_cents"].to_string(),
        "0.084",
        "7 times 12 tokens at 10 USD a million"
    );
}

#[tokio::test]
async fn the_demo_shows_a_budget_that_is_used_up_and_a_call_that_is_too_dear() {
    let gateway = Gateway::demo().await;
    for expected in [200, 200, 200, 429] {
        let answer = gateway
            .ask("sk-demo-free", r#"{"model":"demo-dear","messages":[]}"#)
            .await;
        assert_eq!(answer.status, expected, "{answer:?}");
    }
    let alert = "budget alert";
    assert_eq!(gateway.terminal_with(alert).await.matches(alert).count(), 1);
    let too_dear = gateway
        .ask(
            "sk-demo-free",
            r#"{"model":"demo-dear","max_tokens":1000,"messages":[]}"#,
        )
        .await;
    assert_eq!(
        (too_dear.status.as_u16(), too_dear.code().as_str()),
        (413, "prompt_too_expensive")
    );
}

#[tokio::test]
async fn a_burst_is_served_at_once_and_the_next_call_is_told_when_to_come() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).completion()]);
    let slow =
        "[limits.plans]\nfree = { burst = 3, refill = 1 }\n[budgets.plans]\nfree = { daily_usd = '2' }";
    let gateway = Gateway::with_config(&format!("{}\n{slow}", config(&upstream))).await;

    for left in ["2", "1", "0"] {
        let answer = gateway.ask("sk-ann", r#"{"model":"m","messages":[]}"#).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("x-ratelimit-remaining")),
            (200, left)
        );
    }
    let refused = gateway.ask("sk-ann", r#"{"model":"m","messages":[]}"#).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (429, "rate_limit_exceeded")
    );
    assert_eq!(
        (refused.header("retry-after"), refused.header("x-ratelimit-limit")),
        ("1", "3")
    );
    assert!(refused.header("retry-after-ms").parse::<u32>().unwrap() <= 1_000);
    assert_eq!(upstream.count(), 3);
}

#[tokio::test]
async fn an_answer_that_is_encoded_all_the_same_passes_and_is_charged_by_estimate() {
    let gzip: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let sample = testkit::Sample::json(200, gzip).header("content-encoding", "gzip");
    let upstream = FaultUpstream::start([sample]);
    let gateway = Gateway::with_config(&config(&upstream)).await;

    let response = gateway
        .chat("sk-ann", r#"{"model":"m","max_tokens":1000,"messages":[]}"#)
        .await;

    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(whole(response).await.body, gzip);
    assert_eq!(upstream.request(0).headers["accept-encoding"], "identity");
    assert!(
        gateway.settled_usage("sk-ann").await["spent_cents"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}
