//! All telemetry of this crate; without the features `tracing` and `metrics` it compiles to nothing.
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `estimate_refused_total{code}` | counter | requests that were refused before they were priced |
//! | `estimate_unpriced_total` | counter | AI calls that went on without a cost |
//! | `usage_unread_total{reason}` | counter | 2xx answers that could not be read: `content_encoding` or `content_type` |

use tower_ai_core::{Call, RefusedBy};

/// A call was estimated and goes on.
pub(crate) fn estimated(call: &Call) {
    let Some(estimate) = call.estimate() else { return };
    #[cfg(feature = "tracing")]
    tracing::debug!(
        target: "ai_usage",
        operation = call.ai().map(|ai| ai.operation.as_str()),
        input = estimate.counts().input,
        output = estimate.counts().output,
        nano_usd = estimate.cost().map(|cost| cost.nanos()),
        "call estimated"
    );
    #[cfg(feature = "metrics")]
    if estimate.cost().is_none() {
        metrics::counter!("estimate_unpriced_total").increment(1);
    }
    let _ = estimate;
}

/// Estimate answered by itself.
pub(crate) fn refused(by: &RefusedBy) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "ai_usage", code = by.code, "request refused before it was priced");
    #[cfg(feature = "metrics")]
    metrics::counter!("estimate_refused_total", "code" => by.code).increment(1);
    let _ = by;
}

/// A 2xx answer passes unread, and is charged by what is known.
pub(crate) fn unread(reason: &'static str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "ai_usage", reason, "the usage of an answer cannot be read");
    #[cfg(feature = "metrics")]
    metrics::counter!("usage_unread_total", "reason" => reason).increment(1);
    let _ = reason;
}
