//! What is counted.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use support::{MS, call, short_request};
use testkit::{Answer, MetricNotes, ProbeService, ScriptedBody};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

#[tokio::test(start_paused = true)]
async fn a_limit_that_fires_is_counted_by_phase_and_a_first_byte_is_timed() {
    let notes = MetricNotes::default();
    let _recorder = metrics::set_default_local_recorder(&notes);

    let silent = ProbeService::new(|_| Answer::never());
    call(TtfbWatchdogLayer::new(), silent, short_request()).await;
    let head_only = ProbeService::new(|_| Answer::ok(ScriptedBody::new().forever()));
    call(TtfbWatchdogLayer::new(), head_only, short_request()).await;
    let healthy = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])).after(20 * MS));
    call(TtfbWatchdogLayer::new(), healthy, short_request()).await;

    assert_eq!(
        notes.lines(),
        [
            "watchdog_silent_total{phase=ttfb} 1",
            "watchdog_silent_total{phase=body_silent} 1",
            "watchdog_first_byte_seconds{} 0.02"
        ]
    );
}
