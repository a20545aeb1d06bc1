//! All telemetry of this crate; without the features `tracing` and `metrics` it compiles to nothing.
//!
//! Metrics: `tower_ai_estimate_refused_total{code}`, `tower_ai_usage_unread_total{reason}`,
//! `tower_ai_usage_unpriced_total`. Labels are from fixed sets.

use tower_ai_core::{Call, RefusedBy};

/// A call was estimated and goes on.
pub(crate) fn estimated(call: &Call) {
    let Some(estimate) = call.estimate() else { return };
    #[cfg(feature = "tracing")]
    tracing::debug!(
        operation = call.ai().map(|ai| ai.operation.as_str()),
        input = estimate.counts().input,
        output = estimate.counts().output,
        nano_usd = estimate.cost().map(|cost| cost.nanos()),
        "call estimated"
    );
    if estimate.cost().is_none() {
        #[cfg(feature = "metrics")]
        metrics::counter!("tower_ai_usage_unpriced_total").increment(1);
    }
}

/// Estimate answered by itself.
pub(crate) fn refused(by: &RefusedBy) {
    #[cfg(feature = "tracing")]
    tracing::debug!(code = by.code, "request refused before it was priced");
    #[cfg(feature = "metrics")]
    metrics::counter!("tower_ai_estimate_refused_total", "code" => by.code).increment(1);
    let _ = by;
}

/// A 2xx answer passes unread, and is charged by what is known.
pub(crate) fn unread(reason: &'static str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(reason, "the usage of an answer cannot be read");
    #[cfg(feature = "metrics")]
    metrics::counter!("tower_ai_usage_unread_total", "reason" => reason).increment(1);
    let _ = reason;
}
