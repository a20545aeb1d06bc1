//! Requests that are wrong: each gets a clear error, and none costs anything.

use crate::support::{Gateway, config};
use testkit::{
    FaultUpstream,
    openai::{Chat, error},
};

#[tokio::test]
async fn bad_input_gets_a_clear_error_and_costs_nothing() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).completion()]);
    // One of each model can be asked for; no upstream takes any model.
    let config = config(&upstream).replace("first_byte_ms", "models = ['m', 'dear']\nfirst_byte_ms");
    let gateway = Gateway::with_config(&config).await;
    let large = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#,
        "x".repeat(8 << 20)
    );

    for (name, body, status, code) in [
        ("invalid JSON", "{\"model\":", 400, "invalid_json"),
        ("an array", "[]", 400, "invalid_json"),
        ("nothing at all", "", 400, "invalid_json"),
        ("no model", r#"{"messages":[]}"#, 400, "invalid_request"),
        (
            "a model that is a number",
            r#"{"model":7,"messages":[]}"#,
            400,
            "invalid_request",
        ),
        (
            "an unknown model",
            r#"{"model":"gpt-nope","messages":[]}"#,
            404,
            "model_not_found",
        ),
        (
            "a known model without a route",
            r#"{"model":"gpt-4o","messages":[]}"#,
            404,
            "model_not_found",
        ),
        (
            "negative max_tokens",
            r#"{"model":"m","max_tokens":-1,"messages":[]}"#,
            400,
            "invalid_estimate",
        ),
        (
            "absurd max_tokens",
            r#"{"model":"m","max_tokens":99999999999,"messages":[]}"#,
            400,
            "invalid_estimate",
        ),
        ("a body over 8 MiB", large.as_str(), 413, "body_too_large"),
        (
            "dearer than one request may be",
            r#"{"model":"dear","max_tokens":900,"messages":[]}"#,
            413,
            "prompt_too_expensive",
        ),
    ] {
        let answer = gateway.ask("sk-ann", body.to_owned()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (status, code),
            "{name}: {answer:?}"
        );
        assert!(
            !answer.json()["error"]["message"].as_str().unwrap().is_empty(),
            "{name}"
        );
    }

    assert_eq!(upstream.count(), 0);
    let usage = gateway.usage("sk-ann").await;
    assert_eq!(
        (&usage["spent_cents"], &usage["reserved_cents"]),
        (&0.into(), &0.into())
    );
    let good = gateway.ask("sk-ann", r#"{"model":"m","messages":[]}"#).await;
    assert_eq!(
        good.header("x-ratelimit-remaining"),
        "19",
        "the refusals took nothing of the burst of 20 either"
    );
}

#[tokio::test]
async fn a_long_context_passes() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).completion()]);
    let gateway = Gateway::with_config(&config(&upstream)).await;
    let long = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#,
        "x".repeat(1 << 20)
    );
    let answer = gateway.ask("sk-ann", long.clone()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(upstream.request(0).body, long);
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).completion()]);
    let gateway = Gateway::with_config(&config(&upstream)).await;
    let large = "x".repeat(32 << 20);
    for _ in 0..3 {
        assert_eq!(gateway.ask("sk-nobody", large.clone()).await.status, 401);
        assert_eq!(gateway.ask("sk-ann", large.clone()).await.status, 413);
    }
}

#[tokio::test]
async fn the_first_usable_of_two_retry_after_headers_counts() {
    // Longer than failover waits, so that the caller is told.
    let twice = error(429, "rate_limit_error", None, "Slow down.").header("retry-after", "soon");
    let upstream = FaultUpstream::start([twice.header("retry-after", "45")]);
    let gateway = Gateway::with_config(&config(&upstream)).await;

    let answer = gateway.ask("sk-ann", r#"{"model":"m","messages":[]}"#).await;

    assert_eq!(
        (answer.status.as_u16(), answer.code().as_str()),
        (429, "all_upstreams_exhausted")
    );
    let told: Vec<_> = answer.headers.get_all("retry-after").iter().collect();
    assert_eq!(told, ["45"], "{answer:?}");
}
