//! Writes what one attempt used into the call's meter.

use crate::{PricedAs, Prices};
use std::sync::Arc;
use tower_ai_core::{AiCall, Attempt, Call, LayerKind, Operation, RefusedBy, TokenCounts, UsageState};

#[derive(Clone, Debug)]
pub(super) struct Record {
    call: Call,
    n: u32,
    prices: Prices,
    priced: PricedAs,
    last: Option<Told>,
}

/// What an answer told so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) counts: Option<TokenCounts>,
    pub(super) is_final: bool,
    /// Output tokens passed on, by our own count.
    pub(super) forwarded: u64,
}

impl Record {
    pub(super) fn new(call: &Call, operation: Operation, attempt: Option<&Attempt>, prices: &Prices) -> Self {
        let priced = PricedAs {
            provider: attempt.and_then(|attempt| attempt.provider.clone()),
            dialect: operation.dialect(),
            asked: attempt.and_then(|attempt| attempt.priced_as.clone()),
            echoed: None,
            tier: None,
            at: prices.now(),
        };
        Self {
            call: call.clone(),
            n: attempt.map_or(0, |attempt| attempt.n),
            prices: prices.clone(),
            priced,
            last: None,
        }
    }

    /// The attempt is handed to the upstream.
    pub(super) fn sent(&mut self, ai: Option<&AiCall>) {
        if self.priced.asked.is_none() {
            self.priced.asked = ai.map(|ai| ai.model.clone());
        }
        self.put_tariff();
    }

    /// The head is there.
    pub(super) fn head(&self, is_success: bool, refused_by: Option<&RefusedBy>) {
        let state = match refused_by {
            // Given up on after it was sent, which is not to say that the upstream stopped.
            Some(by) if by.layer == LayerKind::TtfbWatchdog => UsageState::MaybeBilled,
            Some(_) => UsageState::NotBilled,
            None if is_success => UsageState::Answered,
            None => UsageState::NotBilled,
        };
        self.call.meter().update(self.n, |attempt| attempt.advance(state));
    }

    /// The answer names the model and the tier that serve it, and so the price.
    pub(super) fn echoed(&mut self, model: Option<&str>, tier: Option<&str>) {
        let is_new = adopt(&mut self.priced.echoed, model) | adopt(&mut self.priced.tier, tier);
        if is_new {
            self.put_tariff();
        }
    }

    /// Running totals: each report replaces the last.
    pub(super) fn told(&mut self, told: Told) {
        if self.last == Some(told) {
            return;
        }
        self.last = Some(told);
        self.call.meter().update(self.n, |attempt| {
            attempt.forwarded = told.forwarded;
            let Some(counts) = told.counts else { return };
            attempt.counts = counts;
            // An answer of several choices may go on after an end: no cost of earlier counts may stay.
            attempt.cost = None;
            if told.is_final {
                attempt.cost = attempt.tariff.as_ref().and_then(|tariff| tariff(&counts));
                attempt.advance(UsageState::Reported);
            }
        });
    }

    fn put_tariff(&self) {
        let tariff = self.prices.tariff(self.priced.clone());
        self.call
            .meter()
            .update(self.n, |attempt| attempt.tariff = Some(tariff));
    }
}

/// Takes over a name that differs from what is known; whether it did.
fn adopt(known: &mut Option<Arc<str>>, told: Option<&str>) -> bool {
    match told {
        Some(told) if known.as_deref() != Some(told) => {
            *known = Some(told.into());
            true
        }
        _ => false,
    }
}
