//! How long to wait, told in every way that providers have.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::time::Duration;
use tower_ai_wire::retry_hint;

/// The hint of a 429 with these headers, in milliseconds.
fn hint(headers: &[(&'static str, &'static str)]) -> Option<u128> {
    hint_of(StatusCode::TOO_MANY_REQUESTS, headers, "")
}

fn hint_of(status: StatusCode, headers: &[(&'static str, &'static str)], body: &str) -> Option<u128> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    retry_hint(status, &map, body.as_bytes())
        .as_ref()
        .map(Duration::as_millis)
}

const DATE: (&str, &str) = ("date", "Mon, 30 Nov 2026 12:00:00 GMT");

#[test]
fn milliseconds_come_before_seconds() {
    assert_eq!(
        hint(&[("retry-after", "3"), ("retry-after-ms", "2502")]),
        Some(2502)
    );
    assert_eq!(hint(&[("retry-after", "3")]), Some(3000));
    assert_eq!(hint(&[("retry-after", "0.25")]), Some(250));
}

#[test]
fn what_cannot_be_meant_falls_through() {
    for bad in ["soon", "", "-5", "0", "NaN", "inf", "1e30", "99999999999"] {
        assert_eq!(
            hint(&[("retry-after-ms", bad), ("retry-after", "3")]),
            Some(3000),
            "{bad}"
        );
        assert_eq!(hint(&[("retry-after", bad)]), None, "{bad}");
    }
}

#[test]
fn of_several_values_the_first_usable_one_counts() {
    assert_eq!(
        hint(&[
            ("retry-after", "later"),
            ("retry-after", "7"),
            ("retry-after", "9")
        ]),
        Some(7000)
    );
    assert_eq!(hint(&[("retry-after", "0, 7")]), Some(7000));
}

#[test]
fn a_date_is_taken_against_the_answers_own() {
    let date = ("retry-after", "Mon, 30 Nov 2026 12:01:30 GMT");
    assert_eq!(hint(&[DATE, date]), Some(90_000));
    assert_eq!(hint(&[date]), None, "our clock may differ from theirs");
    assert_eq!(
        hint(&[DATE, ("retry-after", "Mon, 30 Nov 2026 11:59:00 GMT")]),
        None
    );
    assert_eq!(hint(&[DATE, date, ("retry-after", "4")]), Some(4000));
}

#[test]
fn the_body_tells_where_the_headers_do_not() {
    let body = |text: &str| hint_of(StatusCode::TOO_MANY_REQUESTS, &[], text);
    assert_eq!(
        body(r#"{"error":{"message":"Please try again in 2.502s. Or not."}}"#),
        Some(2502)
    );
    assert_eq!(
        body(r#"{"error":{"message":"Please retry after 26 seconds."}}"#),
        Some(26_000)
    );
    assert_eq!(
        body(r#"{"error":{"details":[{"@type":"x/RetryInfo","retryDelay":"34.4s"}]}}"#),
        Some(34_400)
    );
    assert_eq!(
        body(r#"[{"error":{"details":[{"retryDelay":"5s"}]}}]"#),
        Some(5000)
    );
    assert_eq!(
        body(r#"{"error":{"message":"Please try again in 6m0s."}}"#),
        Some(360_000)
    );
    assert_eq!(body(r#"{"error":{"message":"Please try again later."}}"#), None);
    let headers = [("retry-after", "3"), ("x-ratelimit-reset-tokens", "9s")];
    let message = r#"{"error":{"message":"try again in 644ms"}}"#;
    assert_eq!(
        hint_of(StatusCode::TOO_MANY_REQUESTS, &headers, message),
        Some(3000)
    );
    assert_eq!(
        hint_of(StatusCode::TOO_MANY_REQUESTS, &headers[1..], message),
        Some(644)
    );
}

#[test]
fn a_success_has_no_hint_whatever_it_carries() {
    assert_eq!(hint_of(StatusCode::OK, &[("retry-after", "12")], ""), None);
    assert_eq!(
        hint_of(StatusCode::SERVICE_UNAVAILABLE, &[("retry-after", "12")], ""),
        Some(12_000)
    );
}

#[test]
fn of_the_reset_headers_the_limit_that_was_hit_counts() {
    assert_eq!(
        hint(&[
            ("x-ratelimit-remaining-requests", "14397"),
            ("x-ratelimit-reset-requests", "17.399999999s"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "26ms"),
        ]),
        Some(26)
    );
    assert_eq!(
        hint(&[
            ("x-ratelimit-reset-requests", "500"),
            ("x-ratelimit-reset-tokens", "7")
        ]),
        Some(7000)
    );
    assert_eq!(hint(&[("x-ratelimit-reset", "6m0s")]), Some(360_000));
}

#[test]
fn resets_come_as_dates_and_instants_too() {
    let anthropic = ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:20Z");
    let left = ("anthropic-ratelimit-input-tokens-remaining", "0");
    assert_eq!(hint(&[DATE, anthropic, left]), Some(20_000));
    assert_eq!(hint(&[DATE, ("x-ratelimit-reset", "1796040005")]), Some(5000));
    assert_eq!(hint(&[DATE, ("x-ratelimit-reset", "1796040005000")]), Some(5000));
    assert_eq!(hint(&[("ratelimit", "\"api\";r=0;t=295")]), Some(295_000));
}

#[test]
fn resets_say_nothing_about_other_errors() {
    let headers = [
        ("x-ratelimit-reset-requests", "120ms"),
        ("x-ratelimit-remaining-requests", "0"),
    ];
    assert_eq!(hint_of(StatusCode::INTERNAL_SERVER_ERROR, &headers, ""), None);
}
