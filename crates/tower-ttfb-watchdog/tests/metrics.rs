//! What is counted.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use std::sync::{Arc, Mutex};
use support::{MS, call, short_request};
use testkit::{Answer, ProbeService, ScriptedBody};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

/// Notes each metric that is told, with its labels and value.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

struct Noted(Key, Notes);

impl Noted {
    fn note(&self, value: f64) {
        let labels: Vec<_> = self
            .0
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let line = format!("{}{{{}}} {value}", self.0.name(), labels.join(","));
        self.1.0.lock().unwrap().push(line);
    }
}

impl CounterFn for Noted {
    fn increment(&self, by: u64) {
        self.note(by as f64);
    }

    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Noted {
    fn record(&self, value: f64) {
        self.note(value);
    }
}

impl Recorder for Notes {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Noted(key.clone(), self.clone())))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Noted(key.clone(), self.clone())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_fires_is_counted_by_phase_and_a_first_byte_is_timed() {
    let notes = Notes::default();
    let _recorder = metrics::set_default_local_recorder(&notes);

    let silent = ProbeService::new(|_| Answer::never());
    call(TtfbWatchdogLayer::new(), silent, short_request()).await;
    let head_only = ProbeService::new(|_| Answer::ok(ScriptedBody::new().forever()));
    call(TtfbWatchdogLayer::new(), head_only, short_request()).await;
    let healthy = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])).after(20 * MS));
    call(TtfbWatchdogLayer::new(), healthy, short_request()).await;

    assert_eq!(
        *notes.0.lock().unwrap(),
        [
            "watchdog_silent_total{phase=ttfb} 1",
            "watchdog_silent_total{phase=body_silent} 1",
            "watchdog_first_byte_seconds{} 0.02"
        ]
    );
}
