//! What the layer answers by itself. Boxed: a refusal is rare and large, and a future is as large as its largest state.

use crate::{Amount, Balance, Period};
use http::StatusCode;
use std::time::Duration;
use tower_ai_core::{AiCall, LayerKind, NanoUsd, Refusal, RefusalKind};

/// What a caller is told to wait while the ledger is away.
const LEDGER_RETRY_AFTER: Duration = Duration::from_secs(1);

/// 413: one call costs more than one call may.
pub(crate) fn too_expensive(estimated: NanoUsd, cap: NanoUsd) -> Box<Refusal> {
    let message = format!("this call may cost {estimated} USD, and one call may cost at most {cap} USD");
    refusal(RefusalKind::TooLarge, "prompt_too_expensive", message)
        .never_retry()
        .cents("estimated_cents", estimated)
        .cents("cap_cents", cap)
        .into()
}

/// 429 or 402: the budget has no room until it resets.
pub(crate) fn exhausted(
    asked: Amount,
    balance: &Balance,
    period: Period,
    status: StatusCode,
) -> Box<Refusal> {
    let Balance {
        limit,
        spent,
        reserved,
        span,
        ..
    } = balance;
    let mut message = format!(
        "the {} budget of {limit} has no room for a call that may cost {asked}: {spent} spent and {reserved} reserved \
         by calls under way; it resets at {span}",
        period.adjective(),
    );
    if asked.value() > limit.value() {
        message.push_str(", but this call costs more than the whole budget");
    }
    let refusal = refusal(RefusalKind::Quota, exceeded_code(period), message)
        .status(status)
        .retry_after(balance.reset_after)
        .never_retry();
    let used = Amount::new(spent.value().saturating_add(reserved.value()), limit.unit());
    match (used.as_usd(), limit.as_usd()) {
        (Some(used), Some(limit)) => refusal.cents("used_cents", used).cents("limit_cents", limit),
        _ => {
            let count = |amount: Amount| u64::try_from(amount.value()).unwrap_or(0);
            refusal
                .integer("used", count(used))
                .integer("limit", count(*limit))
        }
    }
    .into()
}

/// 401: nobody is there to pay.
pub(crate) fn missing_caller() -> Box<Refusal> {
    Refusal::missing_caller(LayerKind::Budget).into()
}

/// 404: as for a model that no route knows.
pub(crate) fn unknown_price(ai: Option<&AiCall>) -> Box<Refusal> {
    let message = match ai {
        Some(ai) => format!("the model \"{}\" is not served: it has no price", ai.model),
        None => "the call is not served: it has no price".to_owned(),
    };
    refusal(RefusalKind::NotFound, "model_not_found", message).into()
}

/// 503: nobody knows whether there is room.
pub(crate) fn unavailable() -> Box<Refusal> {
    let message = "the budget cannot be looked up for the moment";
    refusal(RefusalKind::Unavailable, "ledger_unavailable", message.to_owned())
        .retry_after(LEDGER_RETRY_AFTER)
        .into()
}

/// 500: the operator has to mend it, and was told how in the log.
pub(crate) fn misconfigured() -> Box<Refusal> {
    let message = "the server cannot tell what this call may cost";
    refusal(RefusalKind::Misconfigured, "misconfigured", message.to_owned())
        .never_retry()
        .into()
}

fn refusal(kind: RefusalKind, code: &'static str, message: String) -> Refusal {
    Refusal::new(LayerKind::Budget, kind, code, message)
}

fn exceeded_code(period: Period) -> &'static str {
    match period {
        Period::Day => "ai_daily_budget_exceeded",
        Period::Week => "ai_weekly_budget_exceeded",
        Period::Month => "ai_monthly_budget_exceeded",
    }
}
