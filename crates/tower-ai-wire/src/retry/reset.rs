//! Headers that tell when a limit is reset.

use super::{date, number, span, until, usable_seconds, values};
use http::{HeaderMap, HeaderName, StatusCode};
use std::time::Duration;

/// When the limit that was hit is free again. These headers stand on every answer, so only a 429 is about them.
///
/// Of several limits the ones with nothing left count, and the latest of them; where none is told to be empty, the
/// request did not fit into what was left, and the earliest reset is the best guess.
pub(super) fn hint(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let resets: Vec<_> = headers
        .keys()
        .filter_map(|name| Reset::read(headers, name))
        .collect();
    let exhausted = resets
        .iter()
        .filter(|reset| reset.is_exhausted)
        .map(|reset| reset.wait)
        .max();
    exhausted.or_else(|| resets.iter().map(|reset| reset.wait).min())
}

struct Reset {
    wait: Duration,
    is_exhausted: bool,
}

impl Reset {
    fn read(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let text = name.as_str();
        if text == "ratelimit" {
            return values(headers, name).find_map(Self::of_draft);
        }
        let is_reset = text.contains("ratelimit") && text.split('-').any(|word| word == "reset");
        if !is_reset {
            return None;
        }
        let remaining = HeaderName::try_from(text.replacen("reset", "remaining", 1)).ok()?;
        Some(Self {
            wait: values(headers, name).find_map(|value| wait(headers, value))?,
            is_exhausted: values(headers, &remaining).any(|left| left == "0"),
        })
    }

    /// `"api";r=0;t=295` of the IETF draft.
    fn of_draft(value: &str) -> Option<Self> {
        let parameter = |name: &str| value.split(';').find_map(|part| part.trim().strip_prefix(name));
        Some(Self {
            wait: number(parameter("t=")?, 1.0)?,
            is_exhausted: parameter("r=") == Some("0"),
        })
    }
}

/// A span (`6m0s`), seconds, an instant in seconds or milliseconds since 1970, or a date.
fn wait(headers: &HeaderMap, value: &str) -> Option<Duration> {
    /// No wait in seconds is that long, no instant in seconds that short; likewise for milliseconds.
    const INSTANT_SECONDS: f64 = 1e9;
    const INSTANT_MILLIS: f64 = 1e12;
    match value.parse::<f64>() {
        Ok(millis) if millis >= INSTANT_MILLIS => until(headers, (millis / 1000.0) as i64),
        Ok(seconds) if seconds >= INSTANT_SECONDS => until(headers, seconds as i64),
        Ok(seconds) => usable_seconds(seconds),
        Err(_) => span::duration(value).or_else(|| until(headers, date::rfc3339(value)?)),
    }
}
