//! How long a provider wants to be left alone.

use http::{HeaderMap, StatusCode};
use std::time::Duration;

/// The first usable hint of an error answer (4xx or 5xx; a 2xx has none even if it carries the header), in this order:
/// `retry-after-ms`; `retry-after` in seconds, also with a fraction; `retry-after` as a date, minus the answer's own
/// `date`; hints in the body; reset headers. Several values of a header: the first usable one.
pub fn retry_hint(_status: StatusCode, _headers: &HeaderMap, _body: &[u8]) -> Option<Duration> {
    todo!()
}
