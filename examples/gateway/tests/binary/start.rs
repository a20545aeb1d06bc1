//! From the command line to the first answer.

use crate::support::{Gateway, config, refused, text};
use std::time::{Duration, Instant};
use testkit::{FaultUpstream, openai::Chat};
use tokio::process::Command;

/// Runs the printed line as a person would, with more arguments at its end.
async fn run(curl: &str, more: &str) -> String {
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("{curl} -sS {more}"))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[tokio::test]
async fn the_greeting_is_the_address_the_demo_keys_and_a_curl_line() {
    let started = Instant::now();
    let gateway = Gateway::demo().await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "started after {:?}",
        started.elapsed()
    );

    let keys: Vec<_> = gateway
        .greeting
        .iter()
        .filter_map(|line| line.strip_prefix("key: "))
        .collect();
    assert_eq!(gateway.greeting[0], format!("listening on {}", gateway.url));
    assert_eq!(
        keys,
        [
            "sk-demo-free",
            "sk-demo-starter",
            "sk-demo-growth",
            "sk-demo-enterprise",
            "sk-demo-pro"
        ]
    );
    assert_eq!(gateway.greeting.len(), 7);
    assert!(gateway.greeting[6].contains(&gateway.url));
}

#[tokio::test]
async fn the_printed_curl_line_gets_an_answer() {
    let gateway = Gateway::demo().await;
    let answer = run(&gateway.greeting[6], "").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("chat.completion"), "{answer}");
    assert!(answer.contains("x-request-id: req_"), "{answer}");
}

#[tokio::test]
async fn the_printed_curl_line_gets_a_stream() {
    let gateway = Gateway::demo().await;
    let line = gateway.greeting[6].replace(r#"{"model""#, r#"{"stream":true,"model""#);
    let answer = run(&line, "--no-buffer").await;
    assert!(answer.contains("content-type: text/event-stream"), "{answer}");
    assert!(answer.contains("chat.completion.chunk"), "{answer}");
    assert!(answer.ends_with("data: [DONE]\n\n"), "{answer}");
    assert!(!answer.contains("usage"), "it was not asked for: {answer}");
}

#[tokio::test]
async fn every_plan_has_a_key_that_works() {
    let gateway = Gateway::demo().await;
    for (plan, burst) in [
        ("free", "20"),
        ("starter", "100"),
        ("growth", "500"),
        ("enterprise", "2000"),
        ("pro", "200"),
    ] {
        let key = format!("sk-demo-{plan}");
        let answer = gateway.ask(&key, r#"{"model":"demo-fast","messages":[]}"#).await;
        assert_eq!(answer.status, 200, "{plan}: {answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), burst, "{plan}");
        assert_eq!(gateway.usage(&key).await["plan"], plan);
    }
}

#[tokio::test]
async fn a_configured_upstream_gets_our_key_and_never_the_callers() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).completion()]);
    let gateway = Gateway::with_config(&config(&upstream)).await;
    assert_eq!(
        gateway.greeting.len(),
        2,
        "no key of a real configuration is printed: {:?}",
        gateway.greeting
    );

    let answer = gateway.ask("sk-ann", r#"{"model":"m","messages":[]}"#).await;

    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = upstream.request(0);
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.headers["authorization"], "Bearer sk-upstream");
    assert!(!format!("{:?}", seen.headers).contains("sk-ann"));
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_its_name() {
    let output = refused("[budget]\nenabled = false").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("unknown field `budget`"),
        "{}",
        text(&output.stderr)
    );
    assert!(output.stdout.is_empty());
}

#[tokio::test]
async fn a_plan_that_only_one_layer_knows_is_refused() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).completion()]);
    let output = refused(&format!(
        "{}\n[budgets.plans]\nfree = {{ daily_usd = '1' }}",
        config(&upstream)
    ))
    .await;
    assert_eq!(output.status.code(), Some(2));
    let message = "budgets.plans: limits know the plan \"enterprise\", budgets do not";
    assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
}

#[tokio::test]
async fn limits_and_budgets_can_be_off() {
    let upstream = FaultUpstream::start([Chat::new(["hello"]).usage(10, 5).completion()]);
    let off = "[limits]\nenabled = false\n[budgets]\nenabled = false";
    let gateway = Gateway::with_config(&format!("{}\n{off}", config(&upstream))).await;

    for _ in 0..30 {
        let answer = gateway
            .ask("sk-ann", r#"{"model":"dear","max_tokens":9000,"messages":[]}"#)
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("x-ratelimit-limit"), "");
    }
    let usage = gateway.usage("sk-ann").await;
    assert!(usage["limit_cents"].is_null(), "{usage}");
    // Where nothing is priced, a model needs no price.
    let answer = gateway
        .ask("sk-ann", r#"{"model":"our-own","messages":[]}"#)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
