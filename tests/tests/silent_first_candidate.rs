//! The whole stack in virtual time: what a silent first candidate costs the caller.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use std::{convert::Infallible, time::Duration};
use testkit::{Answer, ProbeService, Sample, ScriptedBody, anthropic::Message, openai::Chat};
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{BoxError, Caller, FailoverTrace, ServedBy, usd};
use tower_ai_failover::{FailoverLayer, Routes, Upstream};
use tower_ai_ratelimit::{Limits, MemoryStore, RateLimitLayer, SECOND, bucket};
use tower_ai_usage::{EstimateLayer, Price, Prices, UsageLayer};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

const PROMISE: Duration = Duration::from_millis(100);

/// The stack of the gateway, with the probe in the place of the client.
fn stack(
    probe: ProbeService,
) -> impl Service<
    Request<Full<Bytes>>,
    Response = Response<impl http_body::Body<Data = Bytes, Error: Into<BoxError>>>,
    Error = Infallible,
> {
    let prices = Prices::none().with_price("m", Price::per_million(usd!(1), usd!(10)));
    let limits = Limits::per_tenant().requests("requests", bucket(20).refill(2).per(SECOND));
    let routes = Routes::new().model(
        "m",
        [
            Upstream::openai("silent", "http://silent.example/v1"),
            Upstream::openai("healthy", "http://healthy.example/v1").weight(50),
            Upstream::anthropic("silent-anthropic", "http://silent.example"),
            Upstream::anthropic("healthy-anthropic", "http://healthy.example").weight(50),
        ],
    );
    ServiceBuilder::new()
        .layer(EstimateLayer::new(&prices))
        .layer(RateLimitLayer::new(MemoryStore::new(), limits).unwrap())
        .layer(BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(2))).unwrap())
        .layer(FailoverLayer::new(routes).unwrap())
        .layer(UsageLayer::new(&prices))
        .layer(TtfbWatchdogLayer::new())
        .service(probe)
}

/// Asks with a first candidate that behaves like this and a healthy second one. What the caller saw, and after how long.
async fn ask(path: &str, body: &'static str, first: fn() -> Answer, healthy: Sample) -> (Bytes, Duration) {
    let second = healthy.clone();
    let probe = ProbeService::new(move |n| if n == 0 { first() } else { second.clone().into() });
    let request = Request::post(path)
        .extension(Caller::new("acme").unwrap())
        .body(Full::from(body))
        .unwrap();

    let asked = Instant::now();
    let response = stack(probe.clone()).oneshot(request).await.unwrap();
    let answered = asked.elapsed();

    assert_eq!(response.status(), 200);
    assert_eq!(response.extensions().get::<ServedBy>().unwrap().attempt, 2);
    let trace = response.extensions().get::<FailoverTrace>().unwrap().clone();
    let reason = trace.0[0].reason.expect("the first did not serve");
    assert!(reason.to_string().ends_with("-50ms"), "{reason}");
    let hosts: Vec<_> = probe
        .seen()
        .iter()
        .map(|seen| seen.uri.host().unwrap().to_owned())
        .collect();
    assert!(
        hosts[0].starts_with("silent") && hosts[1].starts_with("healthy"),
        "{hosts:?}"
    );
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(Into::<BoxError>::into);
    (body.expect("the answer is whole").to_bytes(), answered)
}

/// Takes the request and says nothing.
fn silent() -> Answer {
    Answer::never()
}

/// Sends a head, and then says nothing.
fn only_a_head() -> Answer {
    Answer::ok(ScriptedBody::new().forever()).header("content-type", "text/event-stream")
}

const CHAT: &str = r#"{"model":"m","messages":[]}"#;
const CHAT_STREAM: &str =
    r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
const MESSAGE_STREAM: &str = r#"{"model":"m","stream":true,"max_tokens":100,"messages":[]}"#;

#[tokio::test(start_paused = true)]
async fn it_delays_the_answer_by_at_most_100_ms() {
    let chat = Chat::new(["Good ", "morning"]).model("m");
    let message = Message::new(["Good ", "morning"]).model("m");
    for first in [silent, only_a_head] {
        for (path, body, healthy) in [
            ("/v1/chat/completions", CHAT, chat.completion()),
            ("/v1/chat/completions", CHAT_STREAM, chat.stream_with_usage()),
            ("/v1/messages", MESSAGE_STREAM, message.stream()),
        ] {
            let (seen, after) = ask(path, body, first, healthy.clone()).await;
            assert_eq!(seen, healthy.bytes(), "one clean answer to {body}");
            assert!(
                (Duration::from_millis(50)..=PROMISE).contains(&after),
                "{after:?} for {body}"
            );
        }
    }
}
