//! What the caller of a sole watchdog sees.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use support::call;
use testkit::{Answer, ProbeService, ScriptedBody};
use tower_ttfb_watchdog::{ResponseBody, TtfbWatchdogLayer};

async fn refused(path: &str, content_type: &str) -> Response<ResponseBody<ScriptedBody>> {
    let request = Request::post(path)
        .header("content-type", content_type)
        .body(ScriptedBody::of(["prompt"]))
        .unwrap();
    call(
        TtfbWatchdogLayer::new(),
        ProbeService::new(|_| Answer::never()),
        request,
    )
    .await
    .0
}

async fn text(response: Response<ResponseBody<ScriptedBody>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_504_says_when_to_try_again() {
    let response = refused("/anything", "text/plain").await;
    assert_eq!(response.status(), 504);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(
        response.body().size_hint().exact(),
        Some(text(response).await.len() as u64)
    );
}

#[tokio::test(start_paused = true)]
async fn each_client_gets_the_shape_that_it_reads() {
    let problem = text(refused("/anything", "application/json").await).await;
    assert!(problem.contains(r#""error":"upstream_silent""#), "{problem}");
    assert!(problem.contains("(ttfb-50ms)"), "{problem}");

    let openai = text(refused("/v1/chat/completions", "application/json").await).await;
    assert!(
        openai.contains(r#""type":"server_error","param":null,"code":"upstream_silent""#),
        "{openai}"
    );

    let anthropic = text(refused("/v1/messages", "application/json").await).await;
    assert!(anthropic.contains(r#""type":"timeout_error""#), "{anthropic}");
}

#[tokio::test(start_paused = true)]
async fn a_grpc_client_gets_trailers_only_with_deadline_exceeded() {
    let response = refused("/a.Service/Call", "application/grpc+proto").await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    assert_eq!(response.headers()["grpc-status"], "4");
    assert_eq!(response.headers()["ai-error-code"], "upstream_silent");
    assert!(response.body().is_end_stream());
}
