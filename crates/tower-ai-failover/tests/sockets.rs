//! The layer and the client over real sockets, against an upstream with real faults.
#![allow(clippy::unwrap_used, reason = "a test fails where it must")]

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use std::{
    future::poll_fn,
    pin::Pin,
    time::{Duration, Instant},
};
use testkit::{Cut, FaultUpstream, RefusedPort, Reply, openai::Chat};
use tower::ServiceExt;
use tower_ai_core::{FailoverTrace, Phases, Refusable, ServedBy};
use tower_ai_failover::{ClientBody, FailoverBody, FailoverLayer, Routes, Upstream, UpstreamClient};
use tower_layer::Layer;

type Body = Refusable<FailoverBody<ClientBody>>;

const CHAT_STREAM: &str = r#"{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
/// What the contract promises for a cancel; a busy machine may take longer, so it is reported, not asserted.
const PROMISED: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(2);

fn hello() -> Chat {
    Chat::new(["Hel", "lo"])
}

fn upstreams(urls: &[String]) -> FailoverLayer {
    let upstreams = urls
        .iter()
        .enumerate()
        .map(|(n, url)| Upstream::openai(format!("u{n}"), format!("{url}/v1")).key(format!("key-{n}")));
    FailoverLayer::new(Routes::new().model("gpt-5", upstreams)).unwrap()
}

async fn send(layer: &FailoverLayer, body: impl Into<Bytes>) -> Response<Body> {
    let request = Request::post("/v1/chat/completions").header("content-type", "application/json");
    let request = request.body(Full::new(body.into())).unwrap();
    layer
        .layer(UpstreamClient::new().unwrap())
        .oneshot(request)
        .await
        .unwrap()
}

fn reasons(response: &Response<Body>) -> Vec<String> {
    let trace = &response.extensions().get::<FailoverTrace>().unwrap().0;
    trace
        .iter()
        .filter_map(|record| Some(record.reason?.to_string()))
        .collect()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn first_frame(body: &mut Body) -> Bytes {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap()
}

/// The first upstream has this fault, the second answers well.
async fn fails_over(first: Reply, reason: &str) {
    let bad = FaultUpstream::start([first]);
    let good = FaultUpstream::start([Reply::from(hello().stream())]);
    let response = send(&upstreams(&[bad.url(), good.url()]), CHAT_STREAM).await;
    assert_eq!(reasons(&response), [reason]);
    assert_eq!(&*response.extensions().get::<ServedBy>().unwrap().candidate, "u1");
    assert_eq!(text(response).await.as_bytes(), hello().stream().bytes());
}

#[tokio::test]
async fn a_refused_connection_fails_over() {
    let (refused, good) = (
        RefusedPort::new(),
        FaultUpstream::start([Reply::from(hello().stream())]),
    );
    let response = send(&upstreams(&[refused.url(), good.url()]), CHAT_STREAM).await;
    assert_eq!(reasons(&response), ["connect"]);
    assert_eq!(text(response).await.as_bytes(), hello().stream().bytes());
}

#[tokio::test]
async fn a_connection_that_is_closed_at_once_fails_over() {
    fails_over(Reply::CloseAtOnce, "reset").await;
}

#[tokio::test]
async fn garbage_fails_over() {
    fails_over(Reply::Garbage, "reset").await;
}

#[tokio::test]
async fn a_cut_before_content_fails_over() {
    let role = hello().stream().frames[0].clone();
    for (cut, reason) in [
        (Cut::Fin, "reset"),
        (Cut::Rst, "reset"),
        (Cut::NoFinalChunk, "reset"),
        (Cut::CloseDelimited, "truncated"),
    ] {
        fails_over(Reply::stream_then_cut([role.clone()], cut), reason).await;
    }
}

#[tokio::test]
async fn a_document_that_is_shorter_than_announced_fails_over() {
    let bytes = hello().completion().bytes();
    let body = bytes.slice(..bytes.len() / 2);
    fails_over(
        Reply::ShortContentLength {
            missing: bytes.len() - body.len(),
            body,
        },
        "reset",
    )
    .await;
}

#[tokio::test]
async fn a_cut_after_content_ends_with_an_error_event_and_cleanly() {
    let begun = hello().stream().frames[..2].to_vec();
    for cut in [Cut::Fin, Cut::Rst, Cut::NoFinalChunk, Cut::CloseDelimited] {
        let upstream = FaultUpstream::start([Reply::stream_then_cut(begun.clone(), cut)]);
        let text = text(send(&upstreams(&[upstream.url()]), CHAT_STREAM).await).await;
        let (content, error) = text.split_at(begun.concat().len());
        assert_eq!(content.as_bytes(), begun.concat(), "{cut:?}");
        assert!(
            error.starts_with("data: {\"error\":") && error.contains("stream_interrupted"),
            "{cut:?}: {error}"
        );
        assert!(!text.contains("[DONE]"));
        assert_eq!(upstream.count(), 1);
    }
}

#[tokio::test]
async fn a_caller_who_leaves_mid_stream_cancels_the_upstream() {
    let begun = hello().stream().frames[..2].to_vec();
    let upstream = FaultUpstream::start([Reply::stream_then_silent(begun)]);
    let mut body = send(&upstreams(&[upstream.url()]), CHAT_STREAM).await.into_body();
    first_frame(&mut body).await;
    let left = Instant::now();
    drop(body);
    let after = upstream.wait_for_cancel(0).await - left;
    println!("cancel seen {after:?} after the caller left (promised: {PROMISED:?})");
    assert!(after < PATIENCE, "{after:?}");
}

#[tokio::test]
async fn a_caller_who_leaves_before_the_answer_cancels_the_upstream() {
    let upstream = FaultUpstream::start([Reply::ReadSilent]);
    let layer = upstreams(&[upstream.url()]);
    let call = tokio::spawn(async move { send(&layer, CHAT_STREAM).await });
    upstream.wait_for_requests(1).await;
    let left = Instant::now();
    call.abort();
    let after = upstream.wait_for_cancel(0).await - left;
    println!("cancel seen {after:?} after the caller left (promised: {PROMISED:?})");
    assert!(after < PATIENCE, "{after:?}");
}

#[tokio::test]
async fn what_the_upstream_gets_is_prepared_for_it() {
    let upstream = FaultUpstream::start([Reply::by(|request| hello().answering(&request.body))]);
    let layer = upstreams(&[upstream.url()]);
    let request = Request::post("/v1/chat/completions?trace=1")
        .header("authorization", "Bearer of-the-caller")
        .header("host", "gateway.example")
        .header("x-request-id", "7")
        .body(Full::<Bytes>::from(CHAT_STREAM))
        .unwrap();
    let response = layer
        .layer(UpstreamClient::new().unwrap())
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        hello().stream().bytes()
    );

    let seen = upstream.request(0);
    assert_eq!(
        (seen.path.as_str(), &seen.body[..]),
        ("/v1/chat/completions?trace=1", CHAT_STREAM.as_bytes())
    );
    assert_eq!(seen.headers["authorization"], "Bearer key-0");
    assert_eq!(seen.headers["host"], upstream.addr().to_string());
    assert_eq!(seen.headers["x-request-id"], "7");
    assert_eq!(seen.headers["content-length"], CHAT_STREAM.len().to_string());
    assert_eq!(seen.headers["accept-encoding"], "identity");
}

fn to(upstream: &FaultUpstream, body: impl Into<Bytes>) -> (Request<Full<Bytes>>, Phases) {
    let phases = Phases::default();
    let request = Request::post(format!("{}/v1/x", upstream.url())).extension(phases.clone());
    (request.body(Full::new(body.into())).unwrap(), phases)
}

#[tokio::test]
async fn the_client_tells_the_phases_of_a_request() {
    let upstream = FaultUpstream::start([Reply::from(hello().completion())]);
    let (request, phases) = to(&upstream, "hello");
    let call = UpstreamClient::new().unwrap().oneshot(request);
    let mut call = std::pin::pin!(call);
    assert!(poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
    assert!(phases.is_claimed() && !phases.is_written());
    assert_eq!(call.await.unwrap().status(), 200);
    assert!(phases.is_connected() && phases.is_written());
    assert_eq!(phases.bytes_written(), 5);
}

#[tokio::test]
async fn a_request_without_a_body_is_written_when_its_head_is() {
    let upstream = FaultUpstream::start([Reply::from(hello().completion())]);
    let (request, phases) = to(&upstream, "");
    let response = UpstreamClient::new().unwrap().oneshot(request).await.unwrap();
    assert!(response.status().is_success() && phases.is_written());
}

#[tokio::test]
async fn an_upload_that_the_upstream_does_not_read_is_not_written() {
    let upstream = FaultUpstream::start([Reply::ReadHeadSilent]);
    let bytes = 16 * 1024 * 1024;
    let (request, phases) = to(&upstream, vec![b'x'; bytes]);
    let call = tokio::spawn(UpstreamClient::new().unwrap().oneshot(request));
    upstream.wait_for_requests(1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(phases.is_connected() && !phases.is_written());
    let written = phases.bytes_written() as usize;
    assert!(0 < written && written < bytes, "{written}");
    call.abort();
    let _ = call.await;
    assert!(
        !phases.is_written(),
        "an upload that was given up is not complete"
    );
}

#[tokio::test]
async fn a_connection_is_used_again_unless_it_was_poisoned() {
    let upstream = FaultUpstream::start([Reply::from(hello().completion())]);
    let client = UpstreamClient::new().unwrap();
    for poisons in [false, true, false] {
        let (request, phases) = to(&upstream, "hello");
        let response = client.clone().oneshot(request).await.unwrap();
        if poisons {
            phases.poison();
        }
        response.into_body().collect().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await; // the connection goes back to the pool
    }
    let connections: Vec<_> = upstream
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections, [0, 0, 1]);
}

#[tokio::test]
async fn an_upstream_that_cannot_be_named_is_no_connection() {
    let request = Request::get("http://no-such-host.invalid/")
        .body(Full::<Bytes>::default())
        .unwrap();
    let error = UpstreamClient::new().unwrap().oneshot(request).await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
}
