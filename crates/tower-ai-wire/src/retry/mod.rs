//! How long a provider wants to be left alone.

mod date;
mod reset;
mod span;

pub(crate) use span::{duration, in_message};

use crate::error::Report;
use http::{
    HeaderMap, HeaderName, StatusCode,
    header::{DATE, RETRY_AFTER},
};
use std::time::Duration;

/// A longer hint is not meant.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The first usable hint of an error answer (4xx or 5xx; a 2xx has none even if it carries the header), in this order:
/// `retry-after-ms`; `retry-after` in seconds, also with a fraction; `retry-after` as a date, minus the answer's own
/// `date`; hints in the body; reset headers. Several values of a header: the first usable one.
///
/// Not usable is what cannot be meant (negative, not a number, more than 31 days), and what is no wait: zero, or a date
/// that is not after the answer's own. The official SDKs back off by themselves then.
pub fn retry_hint(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Duration> {
    if !(status.is_client_error() || status.is_server_error()) {
        return None;
    }
    hint(status, headers, &Report::read(headers, body))
}

pub(crate) fn hint(status: StatusCode, headers: &HeaderMap, report: &Report) -> Option<Duration> {
    let milliseconds = || listed(headers, &RETRY_AFTER_MS).find_map(|value| number(value, 1e-3));
    let seconds = || listed(headers, &RETRY_AFTER).find_map(|value| number(value, 1.0));
    let date = || values(headers, &RETRY_AFTER).find_map(|value| until(headers, date::http_date(value)?));
    milliseconds()
        .or_else(seconds)
        .or_else(date)
        .or_else(|| report.retry_after())
        .or_else(|| reset::hint(status, headers))
}

/// The values of a header that are text.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| value.to_str().ok()).map(str::trim)
}

/// Some proxies join several values in one header.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    values(headers, name)
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

fn number(value: &str, unit_seconds: f64) -> Option<Duration> {
    usable_seconds(value.parse::<f64>().ok()? * unit_seconds)
}

fn usable_seconds(seconds: f64) -> Option<Duration> {
    usable(Duration::try_from_secs_f64(seconds).ok()?)
}

fn usable(wait: Duration) -> Option<Duration> {
    (Duration::ZERO < wait && wait <= LONGEST).then_some(wait)
}

/// From the answer's own date to `then`, both in seconds since 1970. Our clock is not asked: it may differ from theirs.
fn until(headers: &HeaderMap, then: i64) -> Option<Duration> {
    let now = values(headers, &DATE).find_map(date::http_date)?;
    usable(Duration::from_secs(u64::try_from(then.checked_sub(now)?).ok()?))
}
