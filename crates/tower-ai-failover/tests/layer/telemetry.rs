//! What is counted of attempts and of cut streams.

use crate::support::*;
use std::time::Duration;
use testkit::{Answer, MetricNotes, ScriptedBody, openai, openai::Chat};
use tower_ai_core::{LayerKind, Refusal, RefusalFormat, RefusalKind, RefusedBy, Silence, SilentPhase};

/// The watchdog's answer for an attempt without a first byte.
fn silent() -> Answer {
    let limit = Duration::from_millis(50);
    let kind = RefusalKind::Timeout;
    let refusal = Refusal::new(LayerKind::TtfbWatchdog, kind, "upstream_silent", "silent");
    let response = refusal
        .for_this_attempt()
        .into_response::<()>(RefusalFormat::OpenAi);
    let by = response.extensions().get::<RefusedBy>().unwrap().clone();
    let phase = SilentPhase::FirstByte;
    Answer::status(504, ScriptedBody::new())
        .extension(by)
        .extension(Silence { phase, limit })
        .after(limit)
}

fn stream(body: ScriptedBody) -> Answer {
    Answer::ok(body).header("content-type", "text/event-stream")
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_counted_with_its_reason_and_the_one_that_served_is_timed() {
    let notes = MetricNotes::default();
    let _recorder = metrics::set_default_local_recorder(&notes);
    let good = Answer::from(Chat::new(["hello"]).completion()).after(SECOND / 4);
    let probe = scripted([silent(), openai::server_error().into(), good]);
    let response = send(&layer(3), &probe, chat(CHAT)).await;
    assert_eq!(served_by(&response), "c");
    assert_eq!(
        notes.take(),
        [
            "failover_attempts_total{upstream=a,reason=ttfb} 1",
            "failover_attempts_total{upstream=b,reason=status} 1",
            "failover_attempts_total{upstream=c,reason=served} 1",
            "failover_start_seconds{upstream=c} 0.25",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_served_is_counted_by_its_status() {
    let notes = MetricNotes::default();
    let _recorder = metrics::set_default_local_recorder(&notes);
    for (answer, status) in [
        (Answer::error("broke"), "503"),
        (openai::rate_limited(999).into(), "429"),
    ] {
        let _ = send(&layer(1).attempts(1), &scripted([answer]), chat(CHAT)).await;
        let exhausted = format!("failover_exhausted_total{{status={status}}} 1");
        assert_eq!(notes.take().last(), Some(&exhausted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_is_counted_with_its_reason_and_a_whole_one_is_not() {
    let notes = MetricNotes::default();
    let _recorder = metrics::set_default_local_recorder(&notes);
    let whole = Chat::new(["hello"]).stream();
    let begun = || ScriptedBody::of(whole.frames[..2].to_vec());
    let error = openai::error_event("server_error", "broke");
    for (body, reason) in [
        (begun().error("reset"), Some("reset")),
        (begun(), Some("truncated")),
        (begun().forever(), Some("deadline")),
        (begun().data(error), Some("error_event")),
        (whole.body(), None),
    ] {
        let response = send(&layer(1), &scripted([stream(body)]), chat(CHAT_STREAM)).await;
        notes.take(); // its start
        let _ = text(response).await;
        let expected =
            reason.map(|reason| format!("failover_stream_cut_total{{upstream=a,reason={reason}}} 1"));
        assert_eq!(notes.take(), Vec::from_iter(expected));
    }
}
