//! What a request asks of its limits.

use crate::{By, Limit, Mark, PerLimit, Store, Take, Unit, Verdict, layer::Rules, limit::LimitSet};
use http::request::Parts;
use std::sync::Arc;
use tower_ai_core::{Call, Estimate, EstimateMode, LayerKind, Step};

/// A request, the limits that apply to it, and what it costs in each.
pub(crate) struct Ask<St: Store> {
    pub(crate) store: St,
    pub(crate) rules: Arc<Rules>,
    pub(crate) set: Arc<LimitSet>,
    pub(crate) call: Call,
    pub(crate) charges: PerLimit<Charge<St::Key>>,
}

/// What a request costs in one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge<K> {
    /// Position of the limit in its set.
    limit: usize,
    pub(crate) key: K,
    pub(crate) cost: u64,
    pub(crate) mark: Mark,
}

impl<K> Charge<K> {
    pub(crate) fn limit<'a>(&self, set: &'a LimitSet) -> &'a Limit {
        &set.limits[self.limit]
    }
}

impl<St: Store> Ask<St> {
    /// What this request asks.
    ///
    /// # Errors
    /// The kind of a key that is missing, where that is refused.
    pub(crate) fn of(store: &St, rules: &Arc<Rules>, parts: &Parts, call: Call) -> Result<Self, By> {
        let (_, set) = rules
            .plans
            .of(call.caller())
            .expect("a layer is built with a fallback plan");
        let keys: PerLimit<Option<St::Key>> = set
            .sources
            .iter()
            .map(|source| source.find(parts, &call, rules.missing_key, |scope| store.key(scope)))
            .collect::<Result<_, By>>()?;
        let charge = |(limit, built): (usize, &Limit)| {
            Some(Charge {
                limit,
                key: (*keys.get(built.source)?)?,
                cost: match built.unit() {
                    Unit::Requests => 1,
                    Unit::Tokens => tokens(&call, rules.max_output_tokens, built),
                },
                mark: Mark::default(),
            })
        };
        Ok(Self {
            charges: set.limits.iter().enumerate().filter_map(charge).collect(),
            store: store.clone(),
            rules: rules.clone(),
            set: set.clone(),
            call,
        })
    }

    /// Has the store decide.
    pub(crate) fn take(&self) -> Step<Verdict, St::Future> {
        let takes = self.charges.iter().map(|charge| Take {
            key: charge.key,
            limit: charge.limit(&self.set),
            cost: charge.cost,
        });
        self.store.take(&takes.collect())
    }
}

/// The tokens to reserve: the input and the most output that may come.
///
/// Figures that nobody named are cut to the capacity, so that a call without a bound on its output is not locked out
/// of a limit that holds less than we assume.
fn tokens(call: &Call, max_output: Option<u64>, limit: &Limit) -> u64 {
    let estimate = match call.estimate() {
        Some(estimate) => *estimate,
        None if call.has(LayerKind::Estimate) && call.ai().is_none() => return 0, // no call of a model
        None => Estimate::assumed(),
    };
    let (input, capacity) = (estimate.counts().input, limit.gcra().capacity());
    let output = estimate.output_bound().unwrap_or(estimate.counts().output);
    let output = output.min(max_output.unwrap_or(u64::MAX));
    match (estimate.mode(), estimate.output_bound()) {
        (EstimateMode::Assumed, None) => input.saturating_add(output).min(capacity),
        (EstimateMode::Fast, None) => input.saturating_add(output.min(capacity.saturating_sub(input))),
        _ => input.saturating_add(output),
    }
}
