//! Which outcomes are failed over: one test for each row.

use crate::support::*;
use http_body_util::BodyExt;
use testkit::{Answer, ScriptedBody, anthropic::Message, openai, openai::Chat};
use tower_ai_core::{
    LayerKind, Refusal, RefusalFormat, RefusalKind, RefusedBy, Silence, SilentPhase, UsageState,
};

fn good() -> Answer {
    Chat::new(["hello"]).completion().into()
}

fn good_stream() -> Answer {
    Chat::new(["hello"]).stream().into()
}

fn status(status: u16) -> Answer {
    Answer::status(status, ScriptedBody::of([r#"{"error":{"message":"no"}}"#]))
        .header("content-type", "application/json")
}

fn sse(body: ScriptedBody) -> Answer {
    Answer::ok(body).header("content-type", "text/event-stream")
}

fn json(body: ScriptedBody) -> Answer {
    Answer::ok(body).header("content-type", "application/json")
}

/// The first candidate answers so, the second well.
async fn fails_over_with(first: Answer, body: &'static str, reason: &str) {
    let second = if body == CHAT { good() } else { good_stream() };
    let probe = scripted([first, second]);
    let response = send(&layer(2), &probe, chat(body)).await;
    assert_eq!(reasons(&response), [format!("a {reason}"), "b served".into()]);
    assert_eq!(response.status(), 200);
    let expected = if body == CHAT {
        Chat::new(["hello"]).completion()
    } else {
        Chat::new(["hello"]).stream()
    };
    assert_eq!(text(response).await, sample_text(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_408_fails_over() {
    fails_over_with(status(408), CHAT, "status-408").await;
}

#[tokio::test(start_paused = true)]
async fn a_429_fails_over_at_once() {
    let start = tokio::time::Instant::now();
    fails_over_with(status(429).header("retry-after", "20"), CHAT, "status-429").await;
    assert_eq!(start.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_5xx_fails_over() {
    for code in [500, 501, 502, 503, 504, 520, 529] {
        fails_over_with(status(code), CHAT, &format!("status-{code}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_status_goes_straight_back_unchanged() {
    for code in [301, 400, 401, 402, 403, 404, 409, 413, 422, 498] {
        let probe =
            scripted([Answer::status(code, ScriptedBody::of(["ve", "ry bytes"])).header("x-why", "because")]);
        let (response, call) = send_call(&layer(3), &probe, chat(CHAT)).await;
        assert_eq!(response.status(), code);
        assert_eq!(response.headers()["x-why"], "because");
        assert_eq!(served_by(&response), "a");
        assert_eq!(text(response).await, "very bytes");
        assert_eq!(probe.calls(), 1, "{code}");
        assert_eq!(call.meter().attempts()[0].state, UsageState::NotBilled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_error_fails_over() {
    fails_over_with(Answer::error("it broke"), CHAT, "reset").await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_watchdog_fails_over_with_its_limit() {
    let silence = Silence {
        phase: SilentPhase::FirstByte,
        limit: std::time::Duration::from_millis(50),
    };
    let answer = refused(
        Refusal::new(
            LayerKind::TtfbWatchdog,
            RefusalKind::Timeout,
            "upstream_silent",
            "silent",
        )
        .for_this_attempt(),
    );
    fails_over_with(answer.extension(silence), CHAT, "ttfb-50ms").await;
}

fn refused(refusal: Refusal) -> Answer {
    let (parts, _) = refusal
        .into_response::<ScriptedBody>(RefusalFormat::OpenAi)
        .into_parts();
    let by = parts.extensions.get::<RefusedBy>().unwrap().clone();
    Answer::status(parts.status.as_u16(), ScriptedBody::of(["refused"])).extension(by)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_the_caller_stops_and_passes() {
    let refusal = Refusal::new(LayerKind::Usage, RefusalKind::Unavailable, "some_code", "no");
    let probe = scripted([refused(refusal)]);
    let response = send(&layer(2), &probe, chat(CHAT)).await;
    assert_eq!(response.status(), 503);
    assert_eq!(
        response.extensions().get::<RefusedBy>().unwrap().code,
        "some_code"
    );
    assert!(response.extensions().get::<tower_ai_core::ServedBy>().is_none());
    assert_eq!(reasons(&response), ["a refused"]);
    assert_eq!(text(response).await, "refused");
    assert_eq!(probe.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_in_a_200_fails_over() {
    let error = r#"{"error":{"type":"server_error","message":"no"}}"#;
    fails_over_with(json(ScriptedBody::of([error])), CHAT, "stream-server_error").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_in_a_200_that_is_the_callers_passes() {
    let error = r#"{"error":{"type":"invalid_request_error","message":"no"}}"#;
    let probe = scripted([json(ScriptedBody::of([error]))]);
    let response = send(&layer(2), &probe, chat(CHAT)).await;
    assert_eq!(text(response).await, error);
    assert_eq!(probe.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_event_before_content_fails_over_and_leaves_no_second_prelude() {
    let role = Chat::new(["x"]).stream().frames[0].clone();
    let body = ScriptedBody::of([role]).data(openai::error_event("overloaded_error", "busy"));
    fails_over_with(sse(body), CHAT_STREAM, "stream-overloaded").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_event_that_is_the_callers_passes_once() {
    let error = openai::error_event("invalid_request_error", "no");
    let body = ScriptedBody::of([error.clone()])
        .data("data: [DONE]\n\n")
        .forever();
    let probe = scripted([sse(body)]);
    let response = send(&layer(2), &probe, chat(CHAT_STREAM)).await;
    assert_eq!(text(response).await, error);
    assert_eq!(probe.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_anthropic_error_event_before_content_fails_over() {
    let good = Message::new(["hello"]).stream();
    let bad = ScriptedBody::of([good.frames[0].clone()])
        .data(testkit::anthropic::error_event("overloaded_error", "busy"));
    let probe = scripted([sse(bad), good.clone().into()]);
    let response = send(&layer(2), &probe, messages(MESSAGES_STREAM)).await;
    assert_eq!(
        reasons(&response),
        ["a-anthropic stream-overloaded", "b-anthropic served"]
    );
    let text = text(response).await;
    assert_eq!(text, sample_text(&good));
    assert_eq!(text.matches("event: message_start").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_fails_over() {
    fails_over_with(json(ScriptedBody::new()), CHAT, "truncated").await;
    fails_over_with(sse(ScriptedBody::new()), CHAT_STREAM, "truncated").await;
    fails_over_with(Answer::ok(ScriptedBody::new()), CHAT, "truncated").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_or_breaks_before_content_fails_over() {
    let role = Chat::new(["x"]).stream().frames[0].clone();
    fails_over_with(sse(ScriptedBody::of([role.clone()])), CHAT_STREAM, "truncated").await;
    fails_over_with(sse(ScriptedBody::of([role]).error("reset")), CHAT_STREAM, "reset").await;
}

#[tokio::test(start_paused = true)]
async fn a_document_that_breaks_off_fails_over() {
    let half = Chat::new(["hello"]).completion().bytes().slice(..40);
    fails_over_with(json(ScriptedBody::of([half.clone()])), CHAT, "truncated").await;
    fails_over_with(json(ScriptedBody::of([half]).error("reset")), CHAT, "reset").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_json_fails_over() {
    fails_over_with(json(ScriptedBody::of(["<html>"])), CHAT, "truncated").await;
}

#[tokio::test(start_paused = true)]
async fn headers_and_then_silence_fail_over_when_the_share_is_used_up() {
    let start = tokio::time::Instant::now();
    fails_over_with(
        sse(ScriptedBody::new().forever()),
        CHAT_STREAM,
        "start-limit-225s",
    )
    .await;
    assert_eq!(start.elapsed(), SECOND * 225);
}

#[tokio::test(start_paused = true)]
async fn pings_alone_are_no_start() {
    let pings = (0..100).fold(ScriptedBody::new(), |body, _| {
        body.data(": ping\n\n").after(SECOND * 5)
    });
    fails_over_with(sse(pings.forever()), CHAT_STREAM, "start-limit-225s").await;
}

#[tokio::test(start_paused = true)]
async fn silence_fails_over_when_the_share_is_used_up() {
    fails_over_with(Answer::never(), CHAT, "start-limit-225s").await;
}

#[tokio::test(start_paused = true)]
async fn an_inner_service_that_is_never_ready_fails_over_after_a_second() {
    let probe = scripted([good()]).capacity(0);
    let start = tokio::time::Instant::now();
    let response = send(&layer(1).attempts(2), &probe, chat(CHAT)).await;
    assert_eq!(reasons(&response), ["a not_ready", "a not_ready"]);
    assert!(start.elapsed() >= SECOND * 2 && start.elapsed() <= SECOND * 3);
    assert_eq!(probe.calls(), 0);
}

const KIB: usize = 1024;

/// A 429 whose very end tells that it will not pass, in as many bytes, some at a time.
fn used_up(bytes: usize, at_a_time: usize) -> ScriptedBody {
    let (start, end) = (r#"{"pad":""#, r#"","error":{"code":"insufficient_quota"}}"#);
    let pad = "x".repeat(bytes - start.len() - end.len());
    let body = format!("{start}{pad}{end}").into_bytes();
    ScriptedBody::of(body.chunks(at_a_time).map(bytes::Bytes::copy_from_slice))
}

#[tokio::test(start_paused = true)]
async fn of_a_rejection_64_kib_are_read_and_no_more() {
    for at_a_time in [KIB, 1000, 1024 * KIB] {
        for (bytes, attempts) in [(64 * KIB, 1), (64 * KIB + 1, 2)] {
            let rejection = Answer::status(429, used_up(bytes, at_a_time));
            let probe = scripted([rejection, good()]);
            let _ = send(&layer(1), &probe, chat(CHAT)).await;
            assert_eq!(probe.calls(), attempts, "{bytes} bytes, {at_a_time} at a time");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_long_rejection_is_not_even_asked_for() {
    let body = used_up(1024 * KIB, KIB);
    let watch = body.watch();
    fails_over_with(Answer::status(500, body), CHAT, "status-500").await;
    assert_eq!((watch.frames(), watch.is_dropped()), (64, true));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_read_for_one_second_at_most() {
    let silent = ScriptedBody::new().forever();
    let drop_by_drop = (0..100).fold(ScriptedBody::new(), |body, _| body.after(SECOND / 10).data(" "));
    for body in [silent, drop_by_drop] {
        let (start, watch) = (tokio::time::Instant::now(), body.watch());
        fails_over_with(Answer::status(500, body), CHAT, "status-500").await;
        let took = start.elapsed();
        assert!(took.abs_diff(SECOND) <= SECOND / 500, "{took:?}");
        assert!(watch.is_dropped());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_rejection_told_within_its_second_counts() {
    let body = ScriptedBody::new()
        .after(SECOND * 9 / 10)
        .data(used_up(KIB, KIB).collect().await.unwrap().to_bytes())
        .forever();
    let probe = scripted([Answer::status(429, body), good()]);
    let response = send(&layer(1), &probe, chat(CHAT)).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (429, 1));
}
