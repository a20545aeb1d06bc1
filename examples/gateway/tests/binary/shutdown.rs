//! SIGTERM.

use crate::support::{Gateway, config, text, whole};
use http_body_util::BodyExt;
use std::time::Duration;
use testkit::{FaultUpstream, Gate, Reply, openai::Chat};
use tokio::net::TcpStream;

const STREAM: &str = r#"{"model":"m","stream":true,"messages":[]}"#;

#[tokio::test]
async fn a_stream_under_way_is_finished_before_the_gateway_exits() {
    let mut frames = Chat::new(["Hel", "lo"])
        .model("m")
        .stream_with_usage()
        .frames
        .into_iter();
    let started: Vec<_> = frames
        .by_ref()
        .take(2)
        .map(|frame| (Duration::ZERO, frame))
        .collect();
    let rest = frames.map(|frame| (Duration::from_millis(100), frame));
    let upstream = FaultUpstream::start([Reply::Stream(started.into_iter().chain(rest).collect())]);
    let mut gateway = Gateway::with_config(&config(&upstream)).await;
    let mut response = gateway.chat("sk-ann", STREAM).await;
    let first = response.frame().await.unwrap().unwrap().into_data().unwrap();

    gateway.process.terminate();
    gateway.terminal_with("stopping").await;
    let rest = whole(response).await;

    let stream = [first, rest.body].concat();
    assert!(text(&stream).contains("lo"), "{}", text(&stream));
    assert!(text(&stream).ends_with("data: [DONE]\n\n"), "{}", text(&stream));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn no_new_connection_is_accepted_while_streams_end() {
    let gate = Gate::default();
    let upstream = FaultUpstream::start([Reply::from(Chat::new(["hello"]).completion()).behind(&gate)]);
    let mut gateway = Gateway::with_config(&config(&upstream)).await;
    let (response, ()) = tokio::join!(gateway.ask("sk-ann", r#"{"model":"m","messages":[]}"#), async {
        upstream.wait_for_requests(1).await;
        gateway.process.terminate();
        gateway.terminal_with("stopping").await;
        let address = gateway.url.strip_prefix("http://").unwrap();
        assert!(TcpStream::connect(address).await.is_err());
        gate.open();
    });
    assert_eq!(response.status, 200);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn after_the_limit_what_is_left_is_dropped_and_settled() {
    let frames = Chat::new(["Hel", "lo"]).model("m").stream_with_usage().frames;
    let upstream = FaultUpstream::start([Reply::stream_then_silent(frames.into_iter().take(2))]);
    let mut gateway = Gateway::start(&["--shutdown-limit", "50ms"], Some(&config(&upstream))).await;
    let mut response = gateway.chat("sk-ann", STREAM).await;
    response.frame().await.unwrap().unwrap();

    gateway.process.terminate();

    assert!(
        response.collect().await.is_err(),
        "a stream that is cut must not look complete"
    );
    upstream.wait_for_cancel(0).await;
    assert_eq!(
        gateway.process.exit().await.code(),
        Some(0),
        "every reservation was settled"
    );
}
