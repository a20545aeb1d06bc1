//! An answer that cannot be read is counted.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use http::Request;
use http_body_util::BodyExt;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use testkit::{Answer, ProbeService, ScriptedBody, in_paused_time};
use tower::{Layer, ServiceExt};
use tower_ai_usage::{Prices, UsageLayer};

/// Counts answers that pass unread.
#[derive(Default)]
struct Unread(Arc<Count>);

#[derive(Default)]
struct Count(AtomicU64);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, _: u64) {
        unreachable!("the layer only adds");
    }
}

impl Recorder for Unread {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            "usage_unread_total" => Counter::from_arc(self.0.clone()),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// How many unread answers are counted for one with this content encoding.
fn counted(encoding: &'static str) -> u64 {
    let unread = Unread::default();
    with_local_recorder(&unread, || {
        in_paused_time(async {
            let probe = ProbeService::new(move |_| {
                Answer::ok(ScriptedBody::of(["{}"]))
                    .header("content-type", "application/json")
                    .header("content-encoding", encoding)
            });
            let prompt = r#"{"model":"m","messages":[]}"#;
            let request = Request::post("/v1/chat/completions")
                .body(ScriptedBody::of([prompt]))
                .unwrap();
            let usage = UsageLayer::new(&Prices::none()).layer(probe);
            let response = usage.oneshot(request).await.unwrap();
            response.into_body().collect().await.unwrap();
        });
    });
    unread.0.0.load(Ordering::Relaxed)
}

#[test]
fn an_encoded_answer_is_counted_as_unread() {
    assert_eq!((counted("gzip"), counted("identity")), (1, 0));
}
