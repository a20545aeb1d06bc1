//! All telemetry of this crate; without the features `tracing` and `metrics` it compiles to nothing.
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `ratelimit_refused_total{plan,limit,code}` | counter | requests that a limit refused |
//! | `ratelimit_missing_key_total{by}` | counter | requests refused for lack of a caller, user or address |
//! | `ratelimit_unavailable_total{reason,outage}` | counter | requests that the store could not decide |
//! | `ratelimit_overflowed_total` | counter | changes to limits that are counted together with others, for lack of room in memory |
//!
//! Plans and limits are named by the configuration, so the labels are bounded. Tenants are in the log only.

use crate::{By, Limit, Outage};
use std::{sync::Arc, time::Duration};
use tower_ai_core::Call;

/// A limit refused a request.
pub(crate) fn refused(
    call: &Call,
    plan: Option<&Arc<str>>,
    limit: &Limit,
    wait: Option<Duration>,
    code: &'static str,
) {
    #[cfg(feature = "tracing")]
    {
        let caller = call.caller();
        tracing::info!(
            target: "ai_ratelimit",
            tenant_id = caller.map(|caller| caller.tenant.as_str()),
            user_id = caller.and_then(|caller| caller.user.as_ref()).map(|user| user.as_str()),
            plan = plan.map(|plan| &**plan),
            limit = limit.name(),
            by = limit.by().as_str(),
            wait_ms = wait.map(|wait| wait.as_millis() as u64),
            code,
            "a limit refused a request"
        );
    }
    #[cfg(feature = "metrics")]
    metrics::counter!(
        "ratelimit_refused_total",
        "plan" => plan.map_or_else(|| "".into(), |plan| metrics::SharedString::from(plan.clone())),
        "limit" => limit.shared_name(),
        "code" => code
    )
    .increment(1);
    let _ = (call, plan, limit, wait, code);
}

/// A request has no key for a limit, and is refused for it.
pub(crate) fn missing_key(by: By) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "ai_ratelimit", by = by.as_str(), "a request without a key was refused");
    #[cfg(feature = "metrics")]
    metrics::counter!("ratelimit_missing_key_total", "by" => by.as_str()).increment(1);
    let _ = by;
}

/// The store cannot tell.
pub(crate) fn unavailable(reason: &'static str, outage: Outage) {
    let outage = match outage {
        Outage::Open => "open",
        Outage::Closed => "closed",
    };
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "ai_ratelimit", reason, outage, "the store of the limits is unavailable");
    #[cfg(feature = "metrics")]
    metrics::counter!("ratelimit_unavailable_total", "reason" => reason, "outage" => outage).increment(1);
    let _ = (reason, outage);
}

/// Limits found no room of their own in memory.
pub(crate) fn overflowed(limits: u64) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "ai_ratelimit", limits, "more live keys than there is room for");
    #[cfg(feature = "metrics")]
    metrics::counter!("ratelimit_overflowed_total").increment(limits);
    let _ = limits;
}
