//! Scripted upstreams behind a failover layer.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use testkit::{Answer, ProbeService, Sample};
use tower::ServiceExt;
use tower_ai_core::{Call, FailoverTrace, Refusable, ServedBy};
use tower_ai_failover::{Failover, FailoverBody, FailoverLayer, Routes, Upstream};
use tower_layer::Layer;

pub(crate) const CHAT: &str = r#"{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const CHAT_STREAM: &str =
    r#"{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const MESSAGES_STREAM: &str =
    r#"{"model":"gpt-5","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

pub(crate) type Body = Refusable<FailoverBody<testkit::ScriptedBody>>;

/// A layer with candidates `a`, `b`, `c` … for `gpt-5` in both dialects.
pub(crate) fn layer(candidates: usize) -> FailoverLayer {
    let ids = ["a", "b", "c", "d"];
    let upstreams = ids[..candidates].iter().flat_map(|id| {
        [
            Upstream::openai(*id, format!("http://{id}/v1")).region("eu"),
            Upstream::anthropic(format!("{id}-anthropic"), format!("http://{id}")),
        ]
    });
    FailoverLayer::new(Routes::new().model("gpt-5", upstreams))
        .unwrap()
        .seed(7)
}

/// Each attempt meets the next of these answers; the last one stays.
pub(crate) fn scripted<A: Into<Answer> + Send + 'static>(
    answers: impl IntoIterator<Item = A>,
) -> ProbeService {
    let answers: Mutex<Vec<_>> = Mutex::new(answers.into_iter().map(Into::into).map(Some).collect());
    ProbeService::new(move |n| {
        let mut answers = answers.lock().unwrap();
        answers
            .get_mut(n)
            .and_then(Option::take)
            .expect("an answer for each attempt")
    })
}

pub(crate) fn chat(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("/v1/chat/completions")
        .body(Full::from(body))
        .unwrap()
}

pub(crate) fn messages(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("/v1/messages").body(Full::from(body)).unwrap()
}

pub(crate) async fn send(
    layer: &FailoverLayer,
    probe: &ProbeService,
    request: Request<Full<Bytes>>,
) -> Response<Body> {
    let service: Failover<ProbeService> = layer.layer(probe.clone());
    service.oneshot(request).await.unwrap()
}

/// Sends a call and gives back its facts as well.
pub(crate) async fn send_call(
    layer: &FailoverLayer,
    probe: &ProbeService,
    mut request: Request<Full<Bytes>>,
) -> (Response<Body>, Call) {
    let call = Call::of(request.extensions_mut());
    (send(layer, probe, request).await, call)
}

pub(crate) fn reasons(response: &Response<Body>) -> Vec<String> {
    let trace = response.extensions().get::<FailoverTrace>().expect("a trace");
    let reasons = trace.0.iter().map(|record| match record.reason {
        Some(reason) => format!("{} {reason}", record.candidate),
        None => format!("{} served", record.candidate),
    });
    reasons.collect()
}

pub(crate) fn served_by(response: &Response<Body>) -> &str {
    &response
        .extensions()
        .get::<ServedBy>()
        .expect("somebody served")
        .candidate
}

pub(crate) async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

pub(crate) fn sample_text(sample: &Sample) -> String {
    String::from_utf8(sample.bytes().to_vec()).unwrap()
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Notes when it is dropped.
    pub(crate) fn guard(&self, what: impl Into<String>) -> LogGuard {
        LogGuard(self.clone(), what.into())
    }
}

pub(crate) struct LogGuard(Log, String);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.note(self.1.clone());
    }
}
