//! All telemetry of this crate; without the features `tracing` and `metrics` it compiles to nothing.
//!
//! Events have the target `ai_budget`. The event `call settled` is the raw material of calibration: account, model,
//! estimate and actual of every call. Fields and metrics in nano-dollars are those of budgets in money.
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `ai_budget_refused_total{code}` | counter | answers that the layer gave by itself |
//! | `ai_budget_settled_total{basis}` | counter | charges: `reported`, `estimated`, `maybe_billed`; and `released` |
//! | `ai_budget_nano_usd_total` | counter | money charged |
//! | `ai_budget_excess_nano_usd_total` | counter | money charged beyond what was reserved |
//! | `ai_budget_alerts_total{cause}` | counter | thresholds crossed |
//! | `ai_budget_unavailable_total{rule}` | counter | replies that the ledger did not give |
//! | `ai_budget_leases_expired_total` | counter | reservations that nobody settled in time |
//! | `ai_budget_late_total` | counter | those that were settled after all |

#![cfg_attr(not(feature = "tracing"), expect(unused_variables))] // what is not observed

use crate::{Alert, Amount, OnExpire, Outage, Receipt, Unavailable};
use tower_ai_core::{Basis, Call, RefusedBy};

/// The layer answered by itself.
pub(crate) fn refused(by: &RefusedBy) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "ai_budget", code = by.code, "call refused");
    #[cfg(feature = "metrics")]
    metrics::counter!("ai_budget_refused_total", "code" => by.code).increment(1);
}

/// A call is charged.
pub(crate) fn settled(receipt: &Receipt, call: &Call, actual: Amount, basis: Basis) {
    let estimate = receipt.amount();
    let excess = actual.value().saturating_sub(estimate.value()).max(0);
    let excess = Amount::new(excess, estimate.unit());
    #[cfg(feature = "tracing")]
    {
        let account = receipt.holds().first().map(|hold| &hold.claim.account);
        tracing::info!(
            target: "ai_budget",
            account = account.map(tracing::field::display),
            model = model(call),
            %estimate,
            %actual,
            estimate_nano_usd = nanos(estimate),
            actual_nano_usd = nanos(actual),
            basis = label(basis),
            "call settled"
        );
        if excess.value() > 0 {
            tracing::warn!(
                target: "ai_budget",
                account = account.map(tracing::field::display),
                model = model(call),
                %excess,
                excess_nano_usd = nanos(excess),
                "a call cost more than was reserved for it; the excess is booked in full"
            );
        }
    }
    #[cfg(feature = "metrics")]
    {
        let count = |amount| {
            nanos(amount)
                .and_then(|nanos| u64::try_from(nanos).ok())
                .unwrap_or(0)
        };
        metrics::counter!("ai_budget_settled_total", "basis" => label(basis)).increment(1);
        metrics::counter!("ai_budget_nano_usd_total").increment(count(actual));
        metrics::counter!("ai_budget_excess_nano_usd_total").increment(count(excess));
    }
}

/// A call costs nothing after all.
pub(crate) fn released(receipt: &Receipt, call: &Call) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        target: "ai_budget",
        account = receipt.holds().first().map(|hold| tracing::field::display(&hold.claim.account)),
        model = model(call),
        estimate = %receipt.amount(),
        "call released"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!("ai_budget_settled_total", "basis" => "released").increment(1);
}

/// A threshold was crossed.
pub(crate) fn alert(alert: &Alert) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "ai_budget",
        account = %alert.account,
        plan = &*alert.plan,
        percent = alert.percent,
        cause = alert.cause.as_str(),
        spent = %alert.spent,
        reserved = %alert.reserved,
        limit = %alert.limit,
        resets_at = %alert.span,
        "budget alert"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!("ai_budget_alerts_total", "cause" => alert.cause.as_str()).increment(1);
}

/// The alert hook panicked.
pub(crate) fn hook_panicked() {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "ai_budget", "the alert hook panicked");
}

/// The ledger did not say whether there is room.
pub(crate) fn unavailable(reason: &Unavailable, rule: Outage) {
    let rule = match rule {
        Outage::Closed => "closed",
        Outage::Open => "open",
    };
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "ai_budget", %reason, rule, "no answer from the ledger");
    #[cfg(feature = "metrics")]
    metrics::counter!("ai_budget_unavailable_total", "rule" => rule).increment(1);
}

/// The layer cannot work as it is set up.
pub(crate) fn misconfigured(how: &'static str) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "ai_budget", how, "calls are refused: the budget layer is misconfigured");
}

/// Nobody settled a reservation before its lease was over.
pub(crate) fn expired(receipt: &Receipt, policy: OnExpire) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "ai_budget",
        id = %receipt.id(),
        account = receipt.holds().first().map(|hold| tracing::field::display(&hold.claim.account)),
        amount = %receipt.amount(),
        ?policy,
        "the lease of a reservation is over"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!("ai_budget_leases_expired_total").increment(1);
}

/// A call was settled after its lease.
pub(crate) fn late(receipt: &Receipt) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "ai_budget", id = %receipt.id(), "settled late, after its lease was over");
    #[cfg(feature = "metrics")]
    metrics::counter!("ai_budget_late_total").increment(1);
}

#[cfg(feature = "tracing")]
fn model(call: &Call) -> Option<&str> {
    call.ai().map(|ai| &*ai.model)
}

#[cfg(any(feature = "tracing", feature = "metrics"))]
fn nanos(amount: Amount) -> Option<i64> {
    amount.as_usd().map(|usd| usd.nanos())
}

#[cfg(any(feature = "tracing", feature = "metrics"))]
fn label(basis: Basis) -> &'static str {
    match basis {
        Basis::Reported => "reported",
        Basis::Estimated => "estimated",
        Basis::MaybeBilled => "maybe_billed",
    }
}
