//! Failover as the caller and the operator see it.

use crate::support::{Gateway, text, whole};
use std::time::Instant;

#[tokio::test]
async fn reports_that_a_silent_first_candidate_delays_the_answer_by_at_most_100_ms() {
    let gateway = Gateway::demo().await;
    let ask = async |model: &str| {
        let body = format!(r#"{{"model":"{model}","stream":true,"messages":[]}}"#);
        let asked = Instant::now();
        let response = gateway.chat("sk-demo-growth", body).await;
        (asked.elapsed(), whole(response).await)
    };
    ask("demo-silent").await; // connections are there from now on
    let (healthy, fast) = ask("demo-fast").await;
    let (delayed, silent) = ask("demo-silent").await;

    assert_eq!(silent.status, 200, "{silent:?}");
    assert_eq!(
        (silent.header("x-served-by"), silent.header("x-attempts")),
        ("fast", "2")
    );
    assert_eq!(
        (fast.header("x-served-by"), fast.header("x-attempts")),
        ("fast", "1")
    );
    let stream = text(&silent.body);
    assert_eq!(
        stream.matches("\"role\"").count(),
        1,
        "one clean stream: {stream}"
    );
    assert_eq!(
        stream.matches("data: [DONE]").count(),
        1,
        "one clean stream: {stream}"
    );
    println!(
        "first byte: {healthy:?} from a healthy first candidate, {delayed:?} with a silent one before it"
    );
    assert!(
        (delayed - healthy).as_millis() <= 100,
        "{healthy:?} without, {delayed:?} with"
    );
}

#[tokio::test]
async fn the_terminal_shows_each_decision_with_candidate_reason_and_time_left() {
    let gateway = Gateway::demo().await;
    gateway
        .ask("sk-demo-growth", r#"{"model":"demo-silent","messages":[]}"#)
        .await;
    gateway
        .ask("sk-demo-growth", r#"{"model":"demo-failing","messages":[]}"#)
        .await;

    let terminal = gateway.terminal_with("failing status-500 → next").await;
    for decision in ["silent ttfb-50ms → next", "fast serves"] {
        let line = terminal
            .lines()
            .find(|line| line.contains(decision))
            .expect("it is told");
        assert!(line.contains(&format!("failover: {decision}, 539.")), "{line}");
        assert!(line.contains(" s left (id=req_"), "{line}");
    }
}

#[tokio::test]
async fn each_demo_model_is_answered_by_the_candidate_that_can() {
    let gateway = Gateway::demo().await;
    for (model, served_by, attempts) in [
        ("demo-fast", "fast", "1"),
        ("demo-slow", "slow", "1"),
        ("demo-failing", "fast", "2"),
        ("demo-throttled", "fast", "2"),
    ] {
        let body = format!(r#"{{"model":"{model}","messages":[]}}"#);
        let answer = gateway.ask("sk-demo-growth", body).await;
        assert_eq!(answer.status, 200, "{model}: {answer:?}");
        assert_eq!(
            answer.json()["model"],
            model,
            "the model asked for is the model served"
        );
        let served = (answer.header("x-served-by"), answer.header("x-attempts"));
        assert_eq!(served, (served_by, attempts), "{model}");
    }
}

#[tokio::test]
async fn when_nobody_answers_the_caller_is_told_when_to_come_back() {
    let gateway = Gateway::demo().await;
    let answer = gateway
        .ask("sk-demo-growth", r#"{"model":"demo-down","messages":[]}"#)
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.code().as_str()),
        (503, "all_upstreams_exhausted")
    );
    assert!(answer.header("retry-after").parse::<u32>().unwrap() >= 1);
    let usage = gateway.settled_usage("sk-demo-growth").await;
    assert_eq!(usage["spent_cents"], 0, "errors are not billed");
}
