//! The layer and its setters.

use crate::{
    Alarm, Alert, Balance, Budget, BudgetService, ExhaustedStatus, Ledger, MaybeBilled, MissingCaller,
    Outage, Unavailable, UnknownPrice,
    policy::{Assumed, Rules},
};
use std::{fmt, sync::Arc, time::Duration};
use tower_ai_core::{Caller, ConfigError, NanoUsd, Plans};
use tower_layer::Layer;

/// Applies [`BudgetService`]: every call is paid for out of its caller's budget. All services it makes share the
/// ledger.
#[derive(Clone)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct BudgetLayer<L> {
    ledger: L,
    rules: Arc<Rules>,
}

impl<L: Ledger> BudgetLayer<L> {
    /// Budgets by plan, or one for everybody, kept in `ledger`.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the field that is wrong, such as `plans.free.zone`.
    pub fn new(ledger: L, budgets: impl Into<Plans<Budget>>) -> Result<Self, ConfigError> {
        let plans = budgets.into().try_map(|name, budget| budget.plan(name))?;
        Ok(Self {
            ledger,
            rules: Arc::new(Rules::new(plans)),
        })
    }

    /// Calls without a [`Caller`]. Default: refused with 401.
    pub fn on_missing_caller(self, rule: MissingCaller) -> Self {
        self.with(|rules| rules.missing_caller = rule)
    }

    /// Prices calls of which no model is known, in dollars for a million tokens: by the counts of their
    /// [`Estimate`](tower_ai_core::Estimate), or else 1,200 tokens in and 600 out. Replaces
    /// [`fixed_cost`](Self::fixed_cost).
    pub fn assumed_price(self, input_per_million: NanoUsd, output_per_million: NanoUsd) -> Self {
        let (input, output) = (input_per_million, output_per_million);
        self.with(|rules| rules.assumed = Some(Assumed::Price { input, output }))
    }

    /// What a call costs of which no model is known. Replaces [`assumed_price`](Self::assumed_price).
    pub fn fixed_cost(self, cost: NanoUsd) -> Self {
        self.with(|rules| rules.assumed = Some(Assumed::Fixed(cost)))
    }

    /// Calls that were estimated, but have no price. Default: refused with 404.
    pub fn on_unknown_price(self, rule: UnknownPrice) -> Self {
        self.with(|rules| rules.unknown_price = rule)
    }

    /// The status when a budget is used up. Default: 429.
    pub fn exhausted_status(self, status: ExhaustedStatus) -> Self {
        self.with(|rules| rules.exhausted = status)
    }

    /// Calls while the ledger is unavailable. Default: refused with 503.
    pub fn outage(self, rule: Outage) -> Self {
        self.with(|rules| rules.outage = rule)
    }

    /// Calls that were given up after they were sent. Default: their input is charged.
    pub fn on_maybe_billed(self, rule: MaybeBilled) -> Self {
        self.with(|rules| rules.maybe_billed = rule)
    }

    /// Is told each alert, beside the log. It runs on the task of a call, before a refusal is sent, so it must not
    /// block: hand the alert to a channel.
    pub fn alert_hook(self, hook: impl Fn(Alert) + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.alarm = Alarm::new(hook))
    }

    /// The time that a call has for which nobody set a [`Deadline`](tower_ai_core::Deadline). Default: 540 s. Whoever
    /// bounds time obeys it; here it makes the lease of a reservation, which ends 60 s later.
    pub fn deadline(self, limit: Duration) -> Self {
        self.with(|rules| rules.deadline = limit)
    }

    /// The name of the plan that applies to a caller: its own if there is a budget for it, else the fallback.
    pub fn plan(&self, caller: Option<&Caller>) -> Option<&str> {
        self.rules.plans.of(caller).map(|(name, _)| name)
    }

    /// What a caller has used: for `GET /v1/usage`. Without a caller, that of the shared account.
    ///
    /// # Errors
    /// [`Unavailable`] when the ledger does not say.
    pub async fn balance(&self, caller: Option<&Caller>) -> Result<Balance, Unavailable> {
        match self.rules.plans.of(caller) {
            Some((_, plan)) => self.ledger.balance(&plan.claim(caller)).await,
            None => Err(Unavailable::new("no plan applies")),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl<S, L: Clone> Layer<S> for BudgetLayer<L> {
    type Service = BudgetService<S, L>;

    fn layer(&self, inner: S) -> BudgetService<S, L> {
        BudgetService::new(inner, self.ledger.clone(), self.rules.clone())
    }
}

impl<L> fmt::Debug for BudgetLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetLayer")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
