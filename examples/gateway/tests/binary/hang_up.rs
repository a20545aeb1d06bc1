//! A caller that leaves in the middle of a stream.

use crate::support::{Gateway, config};
use http_body_util::BodyExt;
use std::time::{Duration, Instant};
use testkit::{FaultUpstream, Reply, openai::Chat};

#[tokio::test]
async fn reports_how_soon_the_upstream_sees_that_the_caller_hung_up() {
    let frames = Chat::new(["Hel", "lo"]).model("m").stream_with_usage().frames;
    let upstream = FaultUpstream::start([Reply::stream_then_silent(frames.into_iter().take(3))]);
    let gateway = Gateway::with_config(&config(&upstream)).await;

    let body =
        r#"{"model":"m","stream":true,"max_tokens":1000,"messages":[{"role":"user","content":"Hello"}]}"#;
    let mut response = gateway.chat("sk-ann", body).await;
    let first = response.frame().await.unwrap().unwrap();
    assert!(first.is_data());
    let reserved = gateway.usage("sk-ann").await["reserved_cents"].as_f64().unwrap();
    assert!(
        reserved >= 1.0,
        "1,000 tokens of answer are reserved: {reserved} cents"
    );

    let left = Instant::now();
    drop(response);
    let seen = upstream.wait_for_cancel(0).await;
    let usage = gateway.settled_usage("sk-ann").await;

    println!(
        "hang-up: the upstream saw it after {:?}, 5 ms is the promise",
        seen - left
    );
    assert!(seen - left < Duration::from_millis(100), "{:?}", seen - left);
    let spent = usage["spent_cents"].as_f64().unwrap();
    assert!(
        spent > 0.0 && spent < 1.0,
        "settled with what was used, not what was reserved: {spent} cents"
    );
}
