//! The official Python SDKs of OpenAI and Anthropic, the newest and one major before, through the gateway.

use crate::support::{Gateway, config};
use serde_json::Value;
use std::{env, path::PathBuf, time::Instant};
use testkit::{Cut, FaultUpstream, Reply, anthropic, openai};
use tokio::process::Command;

/// Pairs of SDK versions, each in a Python environment of its own.
const PINS: [&str; 2] = ["new", "old"];

/// Runs a client and gives what it reports.
async fn run(pin: &str, script: &str, args: &[&str]) -> Value {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let environments = env::var_os("TEST_ENV").map_or(root.join("../../target/test-env"), PathBuf::from);
    let python = environments.join(format!("py-{pin}/bin/python"));
    assert!(
        python.exists(),
        "{} is missing; `scripts/test --setup` makes it",
        python.display()
    );
    let output = Command::new(python)
        .arg(root.join("tests/sdk").join(script))
        .args(args)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .await
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {args:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|bad| panic!("{script} {args:?}: {bad}: {error}"))
}

async fn openai_client(pin: &str, url: &str, args: &[&str]) -> Value {
    run(pin, "openai_client.py", &[&[url, "sk-ann"], args].concat()).await
}

async fn anthropic_client(pin: &str, url: &str, args: &[&str]) -> Value {
    run(pin, "anthropic_client.py", &[&[url, "sk-ann"], args].concat()).await
}

/// An upstream that gives sane answers in both dialects.
fn sane() -> FaultUpstream {
    let chat = openai::Chat::new(["Good ", "morning"]).usage(11, 2);
    let message = anthropic::Message::new(["Good ", "morning"]).usage(11, 2);
    FaultUpstream::start([Reply::by(move |request| {
        match request.path.ends_with("/messages") {
            true => message.clone().answering(&request.body),
            false => chat.clone().answering(&request.body),
        }
    })])
}

fn is_a(out: &Value, class: &str) -> bool {
    out["error"]["bases"]
        .as_array()
        .is_some_and(|bases| bases.contains(&class.into()))
}

#[tokio::test]
async fn both_sdks_get_a_completion() {
    let upstream = sane();
    let gateway = Gateway::with_config(&config(&upstream)).await;
    for pin in PINS {
        for out in [
            openai_client(pin, &gateway.url, &["m", "complete"]).await,
            anthropic_client(pin, &gateway.url, &["m", "complete"]).await,
        ] {
            assert_eq!(out["error"], Value::Null, "{pin}: {out}");
            assert_eq!(
                (&out["text"], &out["model"]),
                (&"Good morning".into(), &"m".into()),
                "{pin}"
            );
            assert_eq!(
                (&out["output_tokens"], &out["requests"]),
                (&2.into(), &1.into()),
                "{pin}"
            );
            assert!(
                out["request_id"].as_str().unwrap().starts_with("req_"),
                "{pin}: {out}"
            );
        }
    }
}

#[tokio::test]
async fn a_stream_is_to_both_sdks_what_the_upstream_sends() {
    let upstream = sane();
    let gateway = Gateway::with_config(&config(&upstream)).await;
    for pin in PINS {
        for how in ["stream", "stream-with-usage"] {
            let direct = openai_client(pin, &upstream.url(), &["m", how]).await;
            let through = openai_client(pin, &gateway.url, &["m", how]).await;
            assert_eq!(through["error"], Value::Null, "{pin} {how}: {through}");
            assert_eq!(through["text"], "Good morning", "{pin} {how}");
            assert_eq!(through["chunks"], direct["chunks"], "{pin} {how}");
        }
        let direct = anthropic_client(pin, &upstream.url(), &["m", "stream"]).await;
        let through = anthropic_client(pin, &gateway.url, &["m", "stream"]).await;
        assert_eq!(through["error"], Value::Null, "{pin}: {through}");
        assert_eq!(through["chunks"], direct["chunks"], "{pin}");
    }
    let spent = gateway.settled_usage("sk-ann").await["spent_cents"].to_string();
    // 11 tokens in and 2 out are 31,000 nano-dollars; six streams of them.
    assert_eq!(
        spent, "0.0186",
        "the usage that was asked for on our own account was read"
    );
}

#[tokio::test]
async fn the_bytes_of_a_stream_are_the_upstreams() {
    let chat = openai::Chat::new(["Good ", "morning"]).model("m");
    let upstream = sane();
    let gateway = Gateway::with_config(&config(&upstream)).await;
    for (body, expected) in [
        (r#"{"model":"m","stream":true,"messages":[]}"#, chat.stream()),
        (
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#,
            chat.usage(11, 2).stream_with_usage(),
        ),
    ] {
        let answer = gateway.ask("sk-ann", body).await;
        assert_eq!(answer.body, expected.bytes());
    }
    // What was sent on our own account asks for usage; what the caller asked for was sent as it was.
    assert!(String::from_utf8_lossy(&upstream.request(0).body).contains("include_usage"));
}

#[tokio::test]
async fn a_rate_limit_is_a_rate_limit_error_with_the_right_wait() {
    let upstream = sane();
    let plans = "[limits.plans]\nfree = { burst = 1, refill = 1, per_seconds = 50 }\n[budgets.plans]\nfree = { daily_usd = '2' }";
    let gateway = Gateway::with_config(&format!("{}\n{plans}", config(&upstream))).await;
    let burst = Instant::now();
    assert_eq!(
        gateway
            .ask("sk-ann", r#"{"model":"m","messages":[]}"#)
            .await
            .status,
        200
    );
    for pin in PINS {
        for client in ["openai_client.py", "anthropic_client.py"] {
            let out = run(pin, client, &[&gateway.url, "sk-ann", "m", "complete"]).await;
            assert!(is_a(&out, "RateLimitError"), "{pin} {client}: {out}");
            assert_eq!(out["error"]["status"], 429, "{pin} {client}: {out}");
            // The SDK's waits are recorded, not waited, so that what it sends again is refused again.
            assert_eq!(
                out["requests"], 3,
                "{pin} {client}: a wait of less than a minute is for the SDK to retry"
            );
            let earliest = 50.0 - burst.elapsed().as_secs_f64();
            for wait in out["sleeps"].as_array().unwrap() {
                let wait = wait.as_f64().unwrap();
                assert!(
                    (earliest..=50.0).contains(&wait),
                    "{pin} {client}: told to wait {wait} s"
                );
            }
        }
    }
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_budget_refusal_is_one_request_and_a_clear_exception() {
    // 700 tokens out cost 0.7 cents; of the day's 0.8 cents, too little is left for another 500.
    let upstream = FaultUpstream::start([openai::Chat::new(["hello"]).usage(10, 700).completion()]);
    let plans =
        "[limits.plans]\nfree = { burst = 20, refill = 2 }\n[budgets.plans]\nfree = { daily_usd = '0.008' }";
    let gateway = Gateway::with_config(&format!("{}\n{plans}", config(&upstream))).await;
    let first = gateway
        .ask("sk-ann", r#"{"model":"m","max_tokens":700,"messages":[]}"#)
        .await;
    assert_eq!(first.status, 200, "{first:?}");
    for pin in PINS {
        let openai = openai_client(pin, &gateway.url, &["m", "complete", "500"]).await;
        assert_eq!(
            openai["error"]["code"], "ai_daily_budget_exceeded",
            "{pin}: {openai}"
        );
        let anthropic = anthropic_client(pin, &gateway.url, &["m", "complete", "500"]).await;
        assert!(
            anthropic["error"]
                .to_string()
                .contains("ai_daily_budget_exceeded"),
            "{pin}: {anthropic}"
        );
        for out in [openai, anthropic] {
            assert!(is_a(&out, "RateLimitError"), "{pin}: {out}");
            assert_eq!(out["error"]["status"], 429, "{pin}: {out}");
            assert_eq!(
                (&out["requests"], &out["sleeps"]),
                (&1.into(), &Value::Array(vec![])),
                "{pin}: {out}"
            );
        }
    }
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_request_that_is_too_dear_is_a_413_and_one_request() {
    let upstream = sane();
    let gateway = Gateway::with_config(&config(&upstream)).await;
    for pin in PINS {
        for out in [
            openai_client(pin, &gateway.url, &["dear", "complete", "900"]).await,
            anthropic_client(pin, &gateway.url, &["dear", "complete", "900"]).await,
        ] {
            assert!(is_a(&out, "APIStatusError"), "{pin}: {out}");
            assert_eq!(
                (&out["error"]["status"], &out["requests"]),
                (&413.into(), &1.into()),
                "{pin}: {out}"
            );
            assert!(
                out["error"].to_string().contains("prompt_too_expensive"),
                "{pin}: {out}"
            );
        }
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_silent_first_candidate_is_not_noticed_by_an_sdk() {
    let gateway = Gateway::demo().await;
    let key = "sk-demo-growth";
    for pin in PINS {
        for client in ["openai_client.py", "anthropic_client.py"] {
            for how in ["complete", "stream"] {
                let out = run(pin, client, &[&gateway.url, key, "demo-silent", how]).await;
                assert_eq!(out["error"], Value::Null, "{pin} {client} {how}: {out}");
                assert_eq!(out["requests"], 1, "{pin} {client} {how}");
                assert!(
                    out["text"]
                        .as_str()
                        .unwrap()
                        .contains("simulated upstream \"fast\""),
                    "{out}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_raises() {
    let openai_frames = openai::Chat::new(["Good ", "morning"]).model("m").stream().frames;
    let anthropic_frames = anthropic::Message::new(["Good ", "morning"])
        .model("m")
        .stream()
        .frames;
    for cut in [Cut::Rst, Cut::NoFinalChunk, Cut::CloseDelimited] {
        let (chat, message) = (openai_frames.clone(), anthropic_frames.clone());
        let upstream = FaultUpstream::start([Reply::by(move |request| {
            match request.path.ends_with("/messages") {
                true => Reply::stream_then_cut(message.iter().take(4).cloned(), cut),
                false => Reply::stream_then_cut(chat.iter().take(2).cloned(), cut),
            }
        })]);
        let gateway = Gateway::with_config(&config(&upstream)).await;
        for pin in PINS {
            let out = openai_client(pin, &gateway.url, &["m", "stream"]).await;
            assert_eq!(
                out["text"], "Good ",
                "{pin} {cut:?}: what came before is delivered: {out}"
            );
            assert_eq!(out["error"]["class"], "APIError", "{pin} {cut:?}: {out}");

            let out = anthropic_client(pin, &gateway.url, &["m", "stream"]).await;
            assert_eq!(
                out["text"], "Good ",
                "{pin} {cut:?}: what came before is delivered: {out}"
            );
            assert!(is_a(&out, "APIStatusError"), "{pin} {cut:?}: {out}");
        }
    }
}
