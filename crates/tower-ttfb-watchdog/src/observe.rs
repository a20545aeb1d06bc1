//! All telemetry of this crate; without the features `tracing` and `metrics` it compiles to nothing.
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `watchdog_silent_total{phase}` | counter | limits that fired; `phase` is one of five |
//! | `watchdog_first_byte_seconds` | histogram | from the request being written to the first byte of the body |

use tower_ai_core::{FirstByte, Silence};

/// A limit fired.
pub(crate) fn silent(silence: Silence) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "ttfb_watchdog", %silence, "the upstream was silent for too long");
    #[cfg(feature = "metrics")]
    metrics::counter!(
        "watchdog_silent_total",
        "phase" => tower_ai_core::Reason::Silence(silence).label()
    )
    .increment(1);
    let _ = silence;
}

/// The first byte came.
pub(crate) fn first_byte(after: FirstByte) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "ttfb_watchdog", after = ?after.0, "first byte");
    #[cfg(feature = "metrics")]
    metrics::histogram!("watchdog_first_byte_seconds").record(after.0);
    let _ = after;
}
