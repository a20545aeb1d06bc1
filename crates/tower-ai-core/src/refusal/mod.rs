//! Answers that a layer gives by itself, in the shape that the caller's client library reads.
//!
//! The shapes were checked against the official OpenAI and Anthropic SDKs (`examples/gateway/tests` of the workspace).

mod body;
mod format;
mod kind;

pub use body::Refusable;
pub use format::RefusalFormat;
pub use kind::{RefusalKind, RefusedBy, Scope};

use crate::{Cents, LayerKind, NanoUsd};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use std::{borrow::Cow, fmt::Write, time::Duration};

/// An answer that a layer is about to give by itself.
///
/// ```
/// use std::time::Duration;
/// use tower_ai_core::{LayerKind, Refusal, RefusalFormat, RefusalKind, Refusable};
///
/// let refusal = Refusal::new(LayerKind::RateLimit, RefusalKind::RateLimit, "rate_limit_exceeded", "rate limit exceeded")
///     .retry_after(Duration::from_millis(300));
/// let response: http::Response<Refusable<String>> = refusal.into_response(RefusalFormat::OpenAi);
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["retry-after"], "1");
/// assert_eq!(response.headers()["retry-after-ms"], "300");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a refusal does nothing until it is sent"]
pub struct Refusal {
    by: RefusedBy,
    status: StatusCode,
    message: Cow<'static, str>,
    should_retry: Option<bool>,
    /// Name and JSON value of members beyond the common ones, in `application/problem+json`.
    members: Vec<(&'static str, String)>,
    headers: HeaderMap,
}

/// Waits longer than this are not for an automatic retry: the official SDKs disagree about them, and one sleeps for
/// a day when told `Retry-After: 86400`.
pub const LONGEST_POLITE_WAIT: Duration = Duration::from_secs(60);

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl Refusal {
    /// A refusal that concerns the caller, with the default status of its kind.
    pub fn new(
        layer: LayerKind,
        kind: RefusalKind,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            by: RefusedBy {
                layer,
                scope: Scope::Caller,
                kind,
                code,
                retry_after: None,
            },
            status: kind.status(),
            message: message.into(),
            should_retry: None,
            members: Vec::new(),
            headers: HeaderMap::new(),
        }
    }

    /// The answer of a layer that needs a caller and finds none.
    pub fn missing_caller(layer: LayerKind) -> Self {
        let message = "no authenticated caller: the server has to put `Caller` into the request's extensions";
        Self::new(layer, RefusalKind::MissingCaller, "missing_caller", message)
    }

    /// Another candidate may do.
    pub fn for_this_attempt(mut self) -> Self {
        self.by.scope = Scope::Attempt;
        self
    }

    /// Another status than the default of the kind.
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// When the same call may pass. Sent as `Retry-After` in whole seconds, rounded up and never 0, and exactly as
    /// `retry-after-ms`; a wait above [`LONGEST_POLITE_WAIT`] also tells SDKs not to retry by themselves.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.by.retry_after = Some(wait);
        if wait > LONGEST_POLITE_WAIT {
            self.should_retry = Some(false);
        }
        self
    }

    /// Tells SDKs not to retry by themselves (`x-should-retry: false`).
    pub fn never_retry(mut self) -> Self {
        self.should_retry = Some(false);
        self
    }

    /// A number beside the error, for problem+json callers.
    pub fn integer(mut self, name: &'static str, value: u64) -> Self {
        self.members.push((name, value.to_string()));
        self
    }

    /// An amount in cents beside the error, as an exact decimal, for problem+json callers.
    pub fn cents(mut self, name: &'static str, amount: NanoUsd) -> Self {
        let cents: Cents = amount.cents();
        self.members.push((name, cents.to_string()));
        self
    }

    /// A header beside those of the format.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The response extension that goes with it.
    pub fn refused_by(&self) -> &RefusedBy {
        &self.by
    }

    /// The answer, with [`RefusedBy`] in its extensions.
    pub fn into_response<B>(self, format: RefusalFormat) -> Response<Refusable<B>> {
        let (content_type, body) = match format {
            RefusalFormat::OpenAi => ("application/json", self.openai_body()),
            RefusalFormat::Anthropic => ("application/json", self.anthropic_body()),
            RefusalFormat::Problem => ("application/problem+json", self.problem_body()),
            RefusalFormat::Grpc => ("application/grpc", String::new()),
        };
        let mut response = Response::new(Refusable::refusal(Bytes::from(body)));
        *response.headers_mut() = self.headers.clone();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(seconds) = self.retry_after_seconds() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(wait) = self.by.retry_after {
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(ceil_millis(wait).max(1)));
        }
        if let Some(should) = self.should_retry {
            headers.insert(
                SHOULD_RETRY,
                HeaderValue::from_static(if should { "true" } else { "false" }),
            );
        }
        if format == RefusalFormat::Grpc {
            self.grpc_trailers(headers);
        } else {
            *response.status_mut() = self.status;
        }
        response.extensions_mut().insert(self.by);
        response
    }

    /// Whole seconds, rounded up, never 0: who waits exactly that long is admitted.
    fn retry_after_seconds(&self) -> Option<u64> {
        self.by
            .retry_after
            .map(|wait| ceil_millis(wait).div_ceil(1000).max(1))
    }

    fn openai_body(&self) -> String {
        format!(
            r#"{{"error":{{"message":{},"type":"{}","param":null,"code":"{}"}}}}"#,
            json(&self.message),
            self.by.kind.openai_type(),
            self.by.code
        )
    }

    /// `details.error_code` is where the SDK looks for a code.
    fn anthropic_body(&self) -> String {
        format!(
            r#"{{"type":"error","error":{{"type":"{}","message":{},"details":{{"error_code":"{}"}}}}}}"#,
            self.by.kind.anthropic_type(self.status),
            json(&self.message),
            self.by.code
        )
    }

    /// RFC 9457, with our members beside the standard ones.
    fn problem_body(&self) -> String {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let mut body = format!(
            r#"{{"type":"about:blank","title":{},"status":{},"detail":{},"error":"{}""#,
            json(title),
            self.status.as_u16(),
            json(&self.message),
            self.by.code
        );
        let seconds = self
            .retry_after_seconds()
            .map(|seconds| ("retry_after", seconds.to_string()));
        for (name, value) in seconds.iter().chain(&self.members) {
            let _ = write!(body, r#","{name}":{value}"#);
        }
        body.push('}');
        body
    }

    /// A trailers-only answer: HTTP 200 with the status in the head (gRPC over HTTP/2, "Responses"), and the retry
    /// hint where gRPC clients look for it (proposal A6).
    fn grpc_trailers(&self, headers: &mut HeaderMap) {
        let code = match self.status.as_u16() {
            400 => "3",
            401 => "16",
            404 => "5",
            402 | 413 | 429 => "8",
            503 => "14",
            504 => "4",
            500 => "13",
            _ => "2",
        };
        headers.insert("grpc-status", HeaderValue::from_static(code));
        let message = percent_encoded(&format!("{}: {}", self.by.code, self.message));
        if let Ok(message) = HeaderValue::from_str(&message) {
            headers.insert("grpc-message", message);
        }
        headers.insert("ai-error-code", HeaderValue::from_static(self.by.code));
        let pushback = match (self.should_retry, self.by.retry_after) {
            (Some(false), _) => Some(HeaderValue::from_static("-1")),
            (_, Some(wait)) => Some(HeaderValue::from(ceil_millis(wait))),
            _ => None,
        };
        if let Some(pushback) = pushback {
            headers.insert("grpc-retry-pushback-ms", pushback);
        }
    }
}

fn ceil_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `grpc-message` allows printable ASCII except `%`.
fn percent_encoded(text: &str) -> String {
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut encoded, byte| {
            match byte {
                b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
                _ => {
                    let _ = write!(encoded, "%{byte:02X}");
                }
            }
            encoded
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usd;
    use http_body_util::{BodyExt, Empty};
    use serde_json::{Value, json};

    fn over_budget() -> Refusal {
        Refusal::new(
            LayerKind::Budget,
            RefusalKind::Quota,
            "ai_daily_budget_exceeded",
            "over \"budget\"",
        )
        .retry_after(Duration::from_millis(7_200_001))
        .never_retry()
        .cents("used_cents", usd!(1.999_999_9))
    }

    fn body(response: Response<Refusable<Empty<Bytes>>>) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = runtime
            .block_on(response.into_body().collect())
            .unwrap()
            .to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn an_openai_client_finds_message_type_and_code() {
        let response = over_budget().into_response(RefusalFormat::OpenAi);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["x-should-retry"], "false");
        let expected = json!({ "error": {
            "message": "over \"budget\"", "type": "insufficient_quota", "param": null, "code": "ai_daily_budget_exceeded"
        }});
        assert_eq!(body(response), expected);
    }

    #[test]
    fn an_anthropic_client_finds_the_code_in_the_details() {
        let response = over_budget()
            .status(StatusCode::PAYMENT_REQUIRED)
            .into_response(RefusalFormat::Anthropic);
        let error = json!({
            "type": "billing_error", "message": "over \"budget\"",
            "details": { "error_code": "ai_daily_budget_exceeded" }
        });
        assert_eq!(body(response), json!({ "type": "error", "error": error }));
    }

    #[test]
    fn a_plain_caller_gets_problem_json_with_exact_amounts() {
        let response = over_budget().into_response(RefusalFormat::Problem);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = body(response);
        assert_eq!(body["error"], "ai_daily_budget_exceeded");
        assert_eq!(body["retry_after"], 7201);
        assert_eq!(body["used_cents"].to_string(), "199.99999");
        assert_eq!(body["status"], 429);
    }

    #[test]
    fn a_grpc_caller_gets_a_trailers_only_answer() {
        let mut refusal = over_budget();
        refusal.message = "100 % used, größer".into();
        let response: Response<Refusable<Empty<Bytes>>> = refusal.into_response(RefusalFormat::Grpc);
        assert_eq!(response.status(), 200);
        let headers = response.headers();
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(
            headers["grpc-message"],
            "ai_daily_budget_exceeded: 100 %25 used, gr%C3%B6%C3%9Fer"
        );
        assert_eq!(headers["ai-error-code"], "ai_daily_budget_exceeded");
        assert_eq!(headers["grpc-retry-pushback-ms"], "-1");
        assert!(http_body::Body::is_end_stream(response.body()));
    }

    #[test]
    fn a_wait_is_rounded_up_and_never_0() {
        for (wait, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (59_999, "60")] {
            let refusal = over_budget().retry_after(Duration::from_millis(wait));
            let response: Response<Refusable<Empty<Bytes>>> = refusal.into_response(RefusalFormat::OpenAi);
            assert_eq!(response.headers()["retry-after"], seconds, "{wait} ms");
        }
    }

    #[test]
    fn a_wait_that_is_too_long_for_sdks_is_not_retried() {
        let refusal = |wait| {
            Refusal::new(
                LayerKind::RateLimit,
                RefusalKind::RateLimit,
                "rate_limit_exceeded",
                "",
            )
            .retry_after(Duration::from_secs(wait))
            .into_response::<Empty<Bytes>>(RefusalFormat::OpenAi)
        };
        assert!(!refusal(60).headers().contains_key("x-should-retry"));
        assert_eq!(refusal(61).headers()["x-should-retry"], "false");
    }
}
