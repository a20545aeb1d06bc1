//! The rules of a layer: what a call is asked to reserve, and what happens when something is missing.

use crate::{Alarm, Amount, Claim, Unit, budget::Plan, observe, refusal};
use http::StatusCode;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tower_ai_core::{Call, Deadline, Estimate, LayerKind, NanoUsd, Plans, Refusal, TokenCounts};

/// How long a call may take for which nobody set a deadline.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(540);
/// Leases end so much later than calls: a settlement is never late because a clock is a little off.
const LEASE_BEYOND_DEADLINE: Duration = Duration::from_secs(60);

/// What becomes of a call without a [`Caller`](tower_ai_core::Caller).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissingCaller {
    /// 401 `missing_caller`.
    #[default]
    Refuse,
    /// One shared account pays, on the fallback plan.
    Anonymous,
}

/// What becomes of a call whose model has no known price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownPrice {
    /// 404 `model_not_found`: what cannot be priced cannot be governed.
    #[default]
    Refuse,
    /// It costs this much.
    Flat(NanoUsd),
    /// It costs nothing: for models of your own.
    Free,
}

/// The status of `ai_daily_budget_exceeded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExhaustedStatus {
    /// 429
    #[default]
    TooManyRequests,
    /// 402: no SDK retries it, even where the header that forbids it is lost.
    PaymentRequired,
}

/// What becomes of a call while the ledger is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outage {
    /// 503 `ledger_unavailable`.
    #[default]
    Closed,
    /// It passes, and nothing is booked: an outage can cost any amount.
    Open,
}

/// What becomes of the reservation of a call that was given up after it was sent, before it was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaybeBilled {
    /// Its input is charged: the provider may bill it.
    #[default]
    Charge,
    /// It is released, but for attempts that are known to be billed.
    Release,
}

/// What is assumed of a call without an estimate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Assumed {
    /// Dollars for a million tokens.
    Price {
        input: NanoUsd,
        output: NanoUsd,
    },
    Fixed(NanoUsd),
}

/// All that a layer is told.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) plans: Plans<Plan>,
    pub(crate) missing_caller: MissingCaller,
    pub(crate) assumed: Option<Assumed>,
    pub(crate) unknown_price: UnknownPrice,
    pub(crate) exhausted: ExhaustedStatus,
    pub(crate) outage: Outage,
    pub(crate) maybe_billed: MaybeBilled,
    pub(crate) deadline: Duration,
    pub(crate) alarm: Alarm,
    misconfiguration_told: Arc<AtomicBool>,
}

/// What a call is asked to reserve.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) claim: Claim,
    pub(crate) amount: Amount,
}

impl Rules {
    pub(crate) fn new(plans: Plans<Plan>) -> Self {
        Self {
            plans,
            missing_caller: MissingCaller::default(),
            assumed: None,
            unknown_price: UnknownPrice::default(),
            exhausted: ExhaustedStatus::default(),
            outage: Outage::default(),
            maybe_billed: MaybeBilled::default(),
            deadline: DEFAULT_DEADLINE,
            alarm: Alarm::default(),
            misconfiguration_told: Arc::default(),
        }
    }

    /// Everything that can be said before the ledger is asked.
    pub(crate) fn ask(&self, call: &Call) -> Result<Ask, Box<Refusal>> {
        let caller = call.caller();
        if caller.is_none() && self.missing_caller == MissingCaller::Refuse {
            return Err(refusal::missing_caller());
        }
        let Some((_, plan)) = self.plans.of(caller) else {
            return Err(self.misconfigured("no plan applies"));
        };
        let amount = self.most(call, plan.limit.unit())?;
        let cost = amount.as_usd().or_else(|| self.known_cost(call));
        match (plan.request_cap, cost) {
            (Some(cap), Some(cost)) if cost > cap => Err(refusal::too_expensive(cost, cap)),
            _ => Ok(Ask {
                claim: plan.claim(caller),
                amount,
            }),
        }
    }

    /// The most that a call can take of a budget in this unit: what is reserved.
    fn most(&self, call: &Call, unit: Unit) -> Result<Amount, Box<Refusal>> {
        Ok(match unit {
            Unit::NanoUsd => Amount::usd(self.price(call)?),
            Unit::Requests => Amount::count(1, unit),
            Unit::Tokens => Amount::count(counts(call).total(), unit),
        })
    }

    /// The most that a call can cost, as far as its estimate and the assumptions tell.
    fn known_cost(&self, call: &Call) -> Option<NanoUsd> {
        let estimate = call.estimate();
        match (estimate.and_then(Estimate::cost), self.assumed) {
            (Some(cost), _) => Some(cost),
            // The model was looked up, and has no price.
            (None, _) if estimate.is_some() && call.ai().is_some() => None,
            (None, Some(Assumed::Fixed(cost))) => Some(cost),
            (None, Some(Assumed::Price { input, output })) => Some(price_of(&counts(call), input, output)),
            (None, None) => None,
        }
    }

    /// What a call is taken to cost at most; where that is not known, the rules for it apply.
    fn price(&self, call: &Call) -> Result<NanoUsd, Box<Refusal>> {
        let amount = match self.known_cost(call) {
            Some(cost) => cost,
            // Somebody estimated it, or could not: an operation that is not known has no price.
            None if call.estimate().is_some() || call.has(LayerKind::Estimate) => self.unknown_price(call)?,
            None => {
                return Err(self.misconfigured(
                    "a call has no estimate: put EstimateLayer outside, or set assumed_price or fixed_cost",
                ));
            }
        };
        if amount < NanoUsd::ZERO {
            return Err(self.misconfigured("a call is estimated to cost less than nothing"));
        }
        Ok(amount)
    }

    fn unknown_price(&self, call: &Call) -> Result<NanoUsd, Box<Refusal>> {
        match self.unknown_price {
            UnknownPrice::Refuse => Err(refusal::unknown_price(call.ai())),
            UnknownPrice::Flat(cost) => Ok(cost),
            UnknownPrice::Free => Ok(NanoUsd::ZERO),
        }
    }

    /// Told once: every call would say the same.
    fn misconfigured(&self, how: &'static str) -> Box<Refusal> {
        if !self.misconfiguration_told.swap(true, Ordering::Relaxed) {
            observe::misconfigured(how);
        }
        refusal::misconfigured()
    }

    /// How long a reservation is held for a call that is never settled.
    pub(crate) fn lease(&self, call: &Call) -> Duration {
        let now = Instant::now();
        let deadline = call.deadline_or(|| {
            let far = now + Duration::from_secs(365 * 24 * 60 * 60);
            Deadline(now.checked_add(self.deadline).unwrap_or(far).into_std())
        });
        deadline
            .left(now.into_std())
            .saturating_add(LEASE_BEYOND_DEADLINE)
    }

    pub(crate) fn exhausted_status(&self) -> StatusCode {
        match self.exhausted {
            ExhaustedStatus::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            ExhaustedStatus::PaymentRequired => StatusCode::PAYMENT_REQUIRED,
        }
    }
}

/// The estimated tokens; without an estimate, the assumed ones.
fn counts(call: &Call) -> TokenCounts {
    *call.estimate().copied().unwrap_or(Estimate::assumed()).counts()
}

/// Prices are per million tokens. Rounded once, upward.
fn price_of(counts: &TokenCounts, input: NanoUsd, output: NanoUsd) -> NanoUsd {
    const MILLION: i128 = 1_000_000;
    let side = |price: NanoUsd, tokens: u64| i128::from(price.nanos()) * i128::from(tokens);
    let nanos = side(input, counts.input) + side(output, counts.output);
    let up = nanos.div_euclid(MILLION) + i128::from(nanos.rem_euclid(MILLION) != 0);
    i64::try_from(up).map_or(NanoUsd::MAX, NanoUsd::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_ai_core::usd;

    #[test]
    fn assumed_tokens_at_a_price_per_million_are_exact() {
        // 1,200 x 0.50 + 600 x 1.50 USD per million
        let price = price_of(Estimate::assumed().counts(), usd!(0.50), usd!(1.50));
        assert_eq!(price, usd!(0.0015));
    }

    #[test]
    fn a_part_of_a_nano_dollar_is_rounded_up_once() {
        let third = NanoUsd::from_nanos(400_000);
        assert_eq!(
            price_of(&TokenCounts::new(1, 1), third, third),
            NanoUsd::from_nanos(1)
        );
        assert_eq!(
            price_of(&TokenCounts::new(2, 1), third, third),
            NanoUsd::from_nanos(2)
        );
        assert_eq!(
            price_of(&TokenCounts::new(5, 0), third, third),
            NanoUsd::from_nanos(2)
        );
    }
}
