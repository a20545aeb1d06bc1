//! An answer that cannot be read is counted.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use http::Request;
use http_body_util::BodyExt;
use testkit::{Answer, MetricNotes, ProbeService, ScriptedBody, in_paused_time};
use tower::{Layer, ServiceExt};
use tower_ai_usage::{Prices, UsageLayer};

/// How many unread answers are counted for one with this content encoding.
fn counted(encoding: &'static str) -> Option<f64> {
    let noted = MetricNotes::during(|| {
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
    noted.sum("usage_unread_total")
}

#[test]
fn an_encoded_answer_is_counted_as_unread() {
    assert_eq!((counted("gzip"), counted("identity")), (Some(1.0), None));
}
