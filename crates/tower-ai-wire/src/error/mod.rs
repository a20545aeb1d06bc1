//! What an error of a provider means, and how ours look inside a stream.

mod report;
mod signs;

pub(crate) use report::{Report, is_error};

use crate::{json::quoted, retry};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::time::Duration;
use tower_ai_core::{Dialect, ErrorClass};

/// A provider that asks to be left alone for so long has run out of a quota, whatever it calls it.
const QUOTA_WAIT: Duration = Duration::from_secs(3600);

/// An error of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireError {
    /// What it means.
    pub class: ErrorClass,
    /// How long the provider asks to be left alone, if it says so.
    pub retry_after: Option<Duration>,
}

/// Classifies an error answer: by its body first, by its status second. Also for a 200 whose body is an error.
pub fn classify(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> WireError {
    let report = Report::read(headers, body);
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error {
        return reported(&report, report.status(), report.retry_after());
    }
    let retry_after = retry::hint(status, headers, &report);
    reported(&report, Some(status.as_u16()), retry_after)
}

/// Classifies an error that stands in an answer of status 200. Its headers were those of a success.
pub(crate) fn within_answer(body: &[u8]) -> WireError {
    classify(StatusCode::OK, &HeaderMap::new(), body)
}

fn reported(report: &Report, status: Option<u16>, retry_after: Option<Duration>) -> WireError {
    let class = match signs::class(report, status) {
        ErrorClass::RateLimit if retry_after >= Some(QUOTA_WAIT) => ErrorClass::Quota,
        class => class,
    };
    WireError { class, retry_after }
}

/// The event that tells a client of this dialect that its stream broke, in the shape that the official SDKs raise.
/// `code` is machine readable (`stream_interrupted`); no terminal marker follows it. Anthropic's shape has no place for it.
pub fn error_event(dialect: Dialect, code: &str, message: &str) -> Bytes {
    let (code, message) = (quoted(code), quoted(message));
    let event = match dialect {
        Dialect::Anthropic => {
            let error = format!(r#"{{"type":"api_error","message":{message}}}"#);
            format!("event: error\ndata: {{\"type\":\"error\",\"error\":{error}}}\n\n")
        }
        _ => {
            let error =
                format!(r#"{{"message":{message},"type":"upstream_error","param":null,"code":{code}}}"#);
            format!("data: {{\"error\":{error}}}\n\n")
        }
    };
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(status: u16, body: &str) -> ErrorClass {
        classify(
            StatusCode::from_u16(status).unwrap(),
            &HeaderMap::new(),
            body.as_bytes(),
        )
        .class
    }

    #[test]
    fn the_body_is_believed_before_the_status() {
        let broke =
            r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}"#;
        assert_eq!(class(400, broke), ErrorClass::Quota);
        let throttled =
            r#"{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Too large: limit 9"}}"#;
        assert_eq!(class(413, throttled), ErrorClass::RateLimit);
        let overflow =
            r#"{"error":{"code":500,"type":"server_error","message":"Context size has been exceeded."}}"#;
        assert_eq!(class(500, overflow), ErrorClass::ContextLength);
    }

    #[test]
    fn without_a_telling_body_the_status_decides() {
        let expected = [
            (400, ErrorClass::InvalidRequest),
            (401, ErrorClass::Auth),
            (402, ErrorClass::Quota),
            (403, ErrorClass::Permission),
            (404, ErrorClass::ModelNotFound),
            (408, ErrorClass::Timeout),
            (409, ErrorClass::Conflict),
            (413, ErrorClass::PayloadTooLarge),
            (418, ErrorClass::InvalidRequest),
            (422, ErrorClass::InvalidRequest),
            (424, ErrorClass::ServerError),
            (429, ErrorClass::RateLimit),
            (498, ErrorClass::Overloaded),
            (500, ErrorClass::ServerError),
            (502, ErrorClass::ServerError),
            (503, ErrorClass::Overloaded),
            (504, ErrorClass::Timeout),
            (524, ErrorClass::Timeout),
            (529, ErrorClass::Overloaded),
        ];
        for (status, expected) in expected {
            for body in ["", "<html>", "{}", "[]", "{\"error\":null}", "\u{0}"] {
                assert_eq!(class(status, body), expected, "{status} {body}");
            }
        }
    }

    #[test]
    fn an_error_may_come_as_an_event_or_behind_a_byte_order_mark() {
        let json = r#"{"error":{"code":"insufficient_quota"}}"#;
        assert_eq!(
            class(429, &format!("event: error\ndata: {json}\n\n")),
            ErrorClass::Quota
        );
        assert_eq!(class(429, &format!("\u{feff}{json}")), ErrorClass::Quota);
    }

    #[test]
    fn a_wait_of_hours_means_that_a_quota_is_used_up() {
        let headers = |wait| HeaderMap::from_iter([(http::header::RETRY_AFTER, wait)]);
        let class = |wait| classify(StatusCode::TOO_MANY_REQUESTS, &headers(wait), b"").class;
        assert_eq!(class(86_400.into()), ErrorClass::Quota);
        assert_eq!(class(600.into()), ErrorClass::RateLimit);
    }

    #[test]
    fn an_error_in_a_200_brings_its_own_status() {
        assert_eq!(
            class(200, r#"{"error":{"code":429,"message":"no"}}"#),
            ErrorClass::RateLimit
        );
        assert_eq!(
            class(200, r#"{"error":{"code":"502","message":"no"}}"#),
            ErrorClass::ServerError
        );
        assert_eq!(
            class(200, r#"{"error":{"message":"no"}}"#),
            ErrorClass::ServerError
        );
    }

    #[test]
    fn error_events_have_the_shape_of_their_dialect() {
        assert_eq!(
            error_event(Dialect::Anthropic, "stream_interrupted", "cut \"off\""),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"cut \\\"off\\\"\"}}\n\n"
        );
        assert_eq!(
            error_event(Dialect::OpenAi, "stream_interrupted", "cut"),
            "data: {\"error\":{\"message\":\"cut\",\"type\":\"upstream_error\",\"param\":null,\"code\":\"stream_interrupted\"}}\n\n"
        );
    }
}
