//! All telemetry of this crate; without the features `tracing` and `metrics` it compiles to nothing.
//!
//! Every decision is one event of the target `ai_failover`. No prompt, key or body is part of any.
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `failover_attempts_total{upstream,reason}` | counter | attempts by outcome; `reason` is `served` or why not |
//! | `failover_exhausted_total{status}` | counter | calls that no upstream served |
//! | `failover_start_seconds{upstream}` | histogram | from the start of the attempt that served to its first content |
//! | `failover_stream_cut_total{upstream,reason}` | counter | answers that broke off after their start |

use crate::select::Next;
use http::StatusCode;
use std::time::Duration;
use tower_ai_core::AttemptRecord;

/// An attempt failed, and this is what follows.
pub(crate) fn failed(record: &AttemptRecord, next: Next) {
    #[cfg(feature = "tracing")]
    {
        let (action, wait) = match next {
            Next::Try(_) => ("next", Duration::ZERO),
            Next::Wait(_, wait) => ("wait", wait),
            Next::Nobody => ("exhausted", Duration::ZERO),
        };
        tracing::info!(
            target: "ai_failover",
            action,
            candidate = %record.candidate,
            n = record.n,
            reason = %Why(record),
            status = record.status,
            remaining_ms = millis(record.remaining),
            wait_ms = millis(wait),
            "failover decision"
        );
    }
    count(record);
    let _ = next;
}

/// An attempt serves the call. The first one is no failover: it is told at debug level.
pub(crate) fn served(record: &AttemptRecord) {
    #[cfg(feature = "tracing")]
    {
        macro_rules! tell {
            ($level:ident) => {
                tracing::$level!(
                    target: "ai_failover",
                    action = "serve",
                    candidate = %record.candidate,
                    n = record.n,
                    status = record.status,
                    took_ms = millis(record.took),
                    remaining_ms = millis(record.remaining),
                    "failover decision"
                )
            };
        }
        if record.n > 1 {
            tell!(info);
        } else {
            tell!(debug);
        }
    }
    count(record);
    #[cfg(feature = "metrics")]
    metrics::histogram!("failover_start_seconds", "upstream" => record.candidate.to_string())
        .record(record.took);
}

fn count(record: &AttemptRecord) {
    #[cfg(feature = "metrics")]
    {
        let reason = record.reason.map_or("served", |reason| reason.label());
        metrics::counter!("failover_attempts_total", "upstream" => record.candidate.to_string(), "reason" => reason)
            .increment(1);
    }
    let _ = record;
}

/// No upstream served the call.
pub(crate) fn exhausted(status: StatusCode, attempts: usize, remaining: Duration) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "ai_failover",
        status = status.as_u16(),
        attempts,
        remaining_ms = millis(remaining),
        "all upstreams exhausted"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!("failover_exhausted_total", "status" => if status == 429 { "429" } else { "503" })
        .increment(1);
    let _ = (status, attempts, remaining);
}

/// An answer broke off after its start.
pub(crate) fn cut(candidate: &str, reason: &'static str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "ai_failover", candidate, reason, "stream cut");
    #[cfg(feature = "metrics")]
    metrics::counter!("failover_stream_cut_total", "upstream" => candidate.to_owned(), "reason" => reason)
        .increment(1);
    let _ = (candidate, reason);
}

#[cfg(feature = "tracing")]
struct Why<'a>(&'a AttemptRecord);

#[cfg(feature = "tracing")]
impl std::fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.reason {
            Some(reason) => reason.fmt(f),
            None => f.write_str("served"),
        }
    }
}

#[cfg(feature = "tracing")]
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
