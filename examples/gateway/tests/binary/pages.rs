//! The pages around the governed calls, and who may see them.

use crate::support::Gateway;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;

const BEARER: (&str, &str) = ("authorization", "Bearer sk-demo-growth");

fn ids(page: &Value) -> Vec<&str> {
    page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn models_are_listed_in_the_callers_dialect() {
    let gateway = Gateway::demo().await;
    let openai = gateway.get("/v1/models", &[BEARER]).await.json();
    assert_eq!(openai["object"], "list");
    assert!(ids(&openai).contains(&"demo-silent"));

    let anthropic = [
        ("x-api-key", "sk-demo-growth"),
        ("anthropic-version", "2023-06-01"),
    ];
    let anthropic = gateway.get("/v1/models", &anthropic).await.json();
    assert_eq!(anthropic["data"][0]["type"], "model");
    assert_eq!(ids(&anthropic), ids(&openai));
}

#[tokio::test]
async fn usage_tells_what_the_caller_spent_and_may_spend() {
    let gateway = Gateway::demo().await;
    let before = gateway.usage("sk-demo-free").await;
    assert_eq!(
        (&before["plan"], &before["tenant"]),
        (&"free".into(), &"demo-free".into())
    );
    assert_eq!(
        (&before["spent_cents"], &before["reserved_cents"]),
        (&0.into(), &0.into())
    );
    assert_eq!(before["limit_cents"], 200);
    let reset = before["reset_after"].as_u64().unwrap();
    assert!((1..=24 * 60 * 60).contains(&reset), "{reset}");

    let body = r#"{"model":"demo-fast","max_tokens":7,"messages":[{"role":"user","content":"Hello"}]}"#;
    let answer = gateway.ask("sk-demo-free", body).await.json();

    let after = gateway.settled_usage("sk-demo-free").await;
    let (input, output) = (
        &answer["usage"]["prompt_tokens"],
        &answer["usage"]["completion_tokens"],
    );
    // 0.50 and 1.50 USD a million tokens are 500 and 1,500 nano-dollars a token.
    let nanos = 500 * input.as_u64().unwrap() + 1_500 * output.as_u64().unwrap();
    let spent = after["spent_cents"].as_f64().unwrap() * 1e7;
    assert!(
        (spent - nanos as f64).abs() < 1e-3,
        "{spent} nano-dollars, expected {nanos}"
    );
    assert_eq!(
        gateway.usage("sk-demo-pro").await["spent_cents"],
        0,
        "another tenant's account is its own"
    );
}

#[tokio::test]
async fn healthz_needs_no_key() {
    let answer = Gateway::demo().await.get("/healthz", &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()["status"].as_str()),
        (200, Some("ok"))
    );
}

#[tokio::test]
async fn http_2_is_spoken_to_those_who_begin_with_it() {
    let gateway = Gateway::demo().await;
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Full<Bytes>>();
    let answer = client
        .get(format!("{}/healthz", gateway.url).parse().unwrap())
        .await
        .unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.version()),
        (200, http::Version::HTTP_2)
    );
}

#[tokio::test]
async fn without_a_known_key_there_is_a_401_in_the_callers_dialect() {
    let gateway = Gateway::demo().await;
    let missing = gateway.get("/v1/models", &[]).await;
    assert_eq!(
        (missing.status.as_u16(), missing.code().as_str()),
        (401, "missing_caller")
    );
    assert_eq!(missing.json()["error"]["type"], "authentication_error");

    let wrong = gateway
        .get(
            "/v1/usage",
            &[("x-api-key", "sk-demo-frei"), ("anthropic-version", "x")],
        )
        .await;
    assert_eq!(
        (wrong.status.as_u16(), wrong.code().as_str()),
        (401, "invalid_api_key")
    );
    assert_eq!(wrong.json()["type"], "error");

    let chat = gateway
        .ask("sk-nobody", r#"{"model":"demo-fast","messages":[]}"#)
        .await;
    assert_eq!(
        (chat.status.as_u16(), chat.code().as_str()),
        (401, "invalid_api_key")
    );
}

#[tokio::test]
async fn a_path_that_is_not_served_is_a_404_with_an_id() {
    let answer = Gateway::demo().await.get("/v1/chat/completions", &[BEARER]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.code().as_str()),
        (404, "not_found")
    );
    assert!(answer.header("x-request-id").starts_with("req_"));
    assert_eq!(answer.header("x-request-id"), answer.header("request-id"));
}
