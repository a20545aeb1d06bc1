//! What callers are told of their limits, in the three families of headers that clients read.
//!
//! | family | headers | of |
//! |---|---|---|
//! | common | `X-RateLimit-Limit`, `-Remaining`, `-Reset` (Unix seconds at which the limit is full) | the first limit of requests, or the first |
//! | OpenAI | `x-ratelimit-limit-requests`, `-remaining-`, `-reset-` (a span such as `6m0s`), and the same for `-tokens` | the first limit of that unit |
//! | IETF draft 11 | `RateLimit-Policy`, `RateLimit` (`t`: seconds until one more unit) | all limits |
//!
//! Times are rounded up. They are rendered when the head leaves; what remains is told as of the decision.

use crate::{Limit, Unit, limit::LimitSet};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tower_ai_core::{Quota, QuotaLimit};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const IETF: HeaderName = HeaderName::from_static("ratelimit");
const IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Limit, remaining and reset of one unit.
type OpenAiNames = [HeaderName; 3];
const OPENAI_REQUESTS: OpenAiNames = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const OPENAI_TOKENS: OpenAiNames = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// How the limits of a plan are announced: the same in every response.
#[derive(Clone, Debug)]
pub(crate) struct Policy(Option<HeaderValue>);

impl Policy {
    pub(crate) fn of(limits: &[Limit]) -> Self {
        let items: Vec<String> = limits.iter().map(policy_item).collect();
        Self(HeaderValue::try_from(items.join(", ")).ok())
    }
}

/// When a head leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Since the decision.
    pub(crate) elapsed: Duration,
    pub(crate) wall: SystemTime,
}

/// Removes what an upstream says of its limits: they are those of our key there, not of our caller.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let is_foreign = |name: &&HeaderName| {
        let name = name.as_str();
        name.starts_with("x-ratelimit-")
            || name.starts_with("anthropic-ratelimit-")
            || name.starts_with("ratelimit")
    };
    while let Some(name) = headers.keys().find(is_foreign).cloned() {
        headers.remove(name);
    }
}

/// Adds our own.
pub(crate) fn render(headers: &mut HeaderMap, quota: &Quota, set: &LimitSet, at: Moment, ietf: bool) {
    let of_unit = |unit| {
        let is_of_unit =
            |state: &&QuotaLimit| set.limit(&state.name).is_some_and(|limit| limit.unit() == unit);
        quota.limits.iter().find(is_of_unit)
    };
    let (requests, tokens) = (of_unit(Unit::Requests), of_unit(Unit::Tokens));
    if let Some(state) = requests.or(quota.limits.first()) {
        headers.insert(LIMIT, state.limit.into());
        headers.insert(REMAINING, state.remaining.into());
        headers.insert(RESET, unix_seconds(at.wall + left(state, at)).into());
    }
    for (state, [limit, remaining, reset]) in [(requests, OPENAI_REQUESTS), (tokens, OPENAI_TOKENS)] {
        if let Some(state) = state {
            headers.insert(limit, state.limit.into());
            headers.insert(remaining, state.remaining.into());
            if let Ok(span) = HeaderValue::try_from(openai_span(left(state, at))) {
                headers.insert(reset, span);
            }
        }
    }
    if ietf {
        render_ietf(headers, quota, set, at);
    }
}

fn render_ietf(headers: &mut HeaderMap, quota: &Quota, set: &LimitSet, at: Moment) {
    let limits = || {
        let states = quota.limits.iter();
        states.filter_map(|state| Some((state, set.limit(&state.name)?)))
    };
    let applies_whole = quota.limits.len() == set.limits.len();
    let policy = if applies_whole {
        set.policy.clone()
    } else {
        Policy::of(&limits().map(|(_, limit)| limit.clone()).collect::<Vec<_>>())
    };
    let mut state_items = String::new();
    for (state, limit) in limits() {
        let separator = if state_items.is_empty() { "" } else { ", " };
        let next = next_unit(state, limit).saturating_sub(at.elapsed);
        let (name, r, t) = (limit.name(), state.remaining, ceil_seconds(next));
        let _ = write!(state_items, r#"{separator}"{name}";r={r};t={t}"#);
    }
    if let (Some(policy), Ok(states)) = (policy.0, HeaderValue::try_from(state_items)) {
        headers.insert(IETF_POLICY, policy);
        headers.insert(IETF, states);
    }
}

/// `"tpm";q=40000;w=60;qu="tokens"`: so many in the time in which an empty bucket fills. The unit is not a registered
/// one; without it clients would read tokens as requests.
fn policy_item(limit: &Limit) -> String {
    let (name, gcra) = (limit.name(), limit.gcra());
    let (quota, window) = (
        gcra.capacity(),
        ceil_seconds(Duration::from_nanos(gcra.fill_time())),
    );
    let unit = match limit.unit() {
        Unit::Requests => "",
        Unit::Tokens => r#";qu="tokens""#,
    };
    format!(r#""{name}";q={quota};w={window}{unit}"#)
}

fn next_unit(state: &QuotaLimit, limit: &Limit) -> Duration {
    let reset_after = u64::try_from(state.reset_after.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(limit.gcra().next_unit_after(state.remaining, reset_after))
}

fn left(state: &QuotaLimit, at: Moment) -> Duration {
    state.reset_after.saturating_sub(at.elapsed)
}

fn ceil_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

fn unix_seconds(time: SystemTime) -> u64 {
    ceil_seconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// As OpenAI writes spans: `120ms`, `8.64s`, `6m0s`, `1h0m2s`.
fn openai_span(span: Duration) -> String {
    let millis = span.as_nanos().div_ceil(1_000_000);
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let fraction = format!("{millis:03}");
    let fraction = match fraction.trim_end_matches('0') {
        "" => String::new(),
        digits => format!(".{digits}"),
    };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_openai_writes_them_and_rounded_up() {
        let spans = [
            (0, "0ms"),
            (1, "1ms"),
            (119_000_001, "120ms"),
            (999_999_999, "1s"),
            (8_640_000_000, "8.64s"),
            (360_000_000_000, "6m0s"),
            (3_602_050_000_000, "1h0m2.05s"),
        ];
        for (nanos, written) in spans {
            assert_eq!(openai_span(Duration::from_nanos(nanos)), written);
        }
    }

    #[test]
    fn what_an_upstream_says_of_our_key_is_removed() {
        let mut headers = HeaderMap::new();
        for name in [
            "x-ratelimit-limit-tokens",
            "anthropic-ratelimit-requests-reset",
            "ratelimit",
            "ratelimit-policy",
            "ratelimit-limit",
            "retry-after",
            "x-request-id",
        ] {
            headers.append(name, HeaderValue::from_static("1"));
            headers.append(name, HeaderValue::from_static("2"));
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["retry-after", "x-request-id"]);
    }
}
