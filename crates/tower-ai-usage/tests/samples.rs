//! With `WIRE_SAMPLES=<folder>`: recorded answers of providers through the layer. They pass byte for byte and their
//! usage is known; with `PRICE_SAMPLES=<folder>` too, their cost is that of an independent price table.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use testkit::{Answer, ProbeService, ScriptedBody};
use tower::{Layer, ServiceExt};
use tower_ai_core::{AttemptUsage, Call, PicoUsd, UsageState, WallClock};
use tower_ai_usage::{Prices, UsageLayer};

/// Bytes of a frame: short, so that events are cut.
const FRAME: usize = 97;

fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("{variable} is not set: nothing was tried");
    }
    folder
}

fn json(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("a list in JSON")
}

/// The chat and messages answers of the folder that tell their usage.
fn samples(folder: &Path) -> impl Iterator<Item = (String, Value)> {
    json(&folder.join("expected.json"))
        .into_iter()
        .filter_map(|sample| {
            let file = sample["file"].as_str()?.to_owned();
            let is_known = matches!(sample["api"].as_str(), Some("chat" | "messages"));
            let is_answer = is_known && sample["expected"].is_object() && !file.starts_with("ollama");
            is_answer.then_some((file, sample))
        })
}

/// Sends a sample through the layer as the answer to a caller who asked for usage.
async fn answered(
    folder: &Path,
    file: &str,
    sample: &Value,
    prices: &Prices,
) -> (Bytes, Bytes, AttemptUsage) {
    let sent = Bytes::from(fs::read(folder.join(file)).unwrap());
    let (path, request) = match sample["api"].as_str().unwrap() {
        "messages" => ("/v1/messages", r#"{"model":"asked","stream":true}"#),
        _ => (
            "/v1/chat/completions",
            r#"{"model":"asked","stream":true,"stream_options":{"include_usage":true}}"#,
        ),
    };
    let content_type = if file.ends_with(".sse") {
        "text/event-stream"
    } else {
        "application/json"
    };
    let body = sent.clone();
    let probe = ProbeService::new(move |_| {
        let frames = body.chunks(FRAME).map(Bytes::copy_from_slice);
        Answer::ok(ScriptedBody::of(frames)).header("content-type", content_type)
    });
    let mut request = Request::post(path).body(ScriptedBody::of([request])).unwrap();
    let call = Call::of(request.extensions_mut());
    let response = UsageLayer::new(prices)
        .layer(probe)
        .oneshot(request)
        .await
        .unwrap();
    let passed = response.into_body().collect().await.unwrap().to_bytes();
    (sent, passed, call.meter().served_attempt().unwrap())
}

#[tokio::test(start_paused = true)]
async fn recorded_answers_pass_as_they_are_and_tell_their_usage() {
    let Some(folder) = folder("WIRE_SAMPLES") else {
        return;
    };
    let mut tried = 0;
    for (file, sample) in samples(&folder) {
        let (sent, passed, used) = answered(&folder, &file, &sample, &Prices::none()).await;
        assert_eq!(passed, sent, "{file}");
        let told = (used.counts.input, used.counts.output);
        let expected = &sample["expected"];
        let expected = (
            expected["input_tokens"].as_u64(),
            expected["output_tokens"].as_u64(),
        );
        assert_eq!((Some(told.0), Some(told.1)), expected, "{file}");
        tried += 1;
    }
    eprintln!("{tried} recorded answers");
    assert!(tried >= 40, "too few samples: {tried}");
}

#[tokio::test(start_paused = true)]
async fn recorded_answers_cost_what_an_independent_table_says() {
    let (Some(folder), Some(prices_folder)) = (folder("WIRE_SAMPLES"), folder("PRICE_SAMPLES")) else {
        return;
    };
    let that_day = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000); // 2026-11-30
    let prices = Prices::bundled().with_clock(WallClock::from_fn(move || that_day));
    let samples: Vec<_> = samples(&folder).collect();
    let mut tried = 0;
    for example in json(&prices_folder.join("cost-examples.json")) {
        let Some((file, sample)) = samples.iter().find(|(file, _)| example["fixture"] == **file) else {
            continue;
        };
        let vendor = matches!(example["provider"].as_str(), Some("openai" | "anthropic"));
        // One answer of two models is priced by its totals; and one example has another model's price on purpose.
        if !vendor
            || !sample["per_model"].is_null()
            || example["model"] == "gpt-audio"
            || file.starts_with("openrouter")
        {
            continue;
        }
        let (.., used) = answered(&folder, file, sample, &prices).await;
        assert_eq!(used.state, UsageState::Reported, "{file}");
        let expected = PicoUsd::from_picos(example["cost_picousd"].as_i64().unwrap().into()).round_up();
        assert_eq!(used.cost, expected, "{file}");
        tried += 1;
    }
    eprintln!("{tried} recorded answers were priced");
    assert!(tried >= 8, "too few samples: {tried}");
}
