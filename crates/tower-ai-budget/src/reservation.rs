//! The obligation of a call that was admitted.

use crate::{
    Amount, Ledger, Receipt, Unit, observe,
    policy::{MaybeBilled, Rules},
};
use std::sync::Arc;
use tower_ai_core::{Basis, BodyEnd, Call, NanoUsd, OnEnd, Outcome, Settlement, TokenCounts, settlement};

/// Settles once, when it is dropped: with the future, or with the body, at whichever of its ends.
pub(crate) struct Reservation<L: Ledger> {
    ledger: L,
    /// Taken when it settles.
    receipt: Option<Receipt>,
    call: Call,
    /// How the call ended, as far as it came.
    outcome: Outcome,
    rules: Arc<Rules>,
}

impl<L: Ledger> Reservation<L> {
    pub(crate) fn new(ledger: L, receipt: Receipt, call: Call, rules: Arc<Rules>) -> Self {
        Self {
            ledger,
            receipt: Some(receipt),
            call,
            outcome: Outcome::Dropped,
            rules,
        }
    }

    /// The inner service has answered so.
    pub(crate) fn answered(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// A call that was given up counts as failed where only what is known to be billed is to be charged.
    fn judged_as(&self) -> Outcome {
        match (self.outcome, self.rules.maybe_billed) {
            (Outcome::Dropped, MaybeBilled::Release) => Outcome::Failed,
            (outcome, _) => outcome,
        }
    }
}

impl<L: Ledger> OnEnd for Reservation<L> {
    /// All ends are alike: what was used is in the meter.
    fn on_end(self, _: BodyEnd) {}
}

impl<L: Ledger> Drop for Reservation<L> {
    fn drop(&mut self) {
        let Some(receipt) = self.receipt.take() else {
            return;
        };
        let reserved = receipt.amount();
        let charge = match settlement(&self.call, self.judged_as()) {
            Settlement::Release => None,
            Settlement::Charge { counts, cost, basis } => Some((used(reserved, &counts, cost), basis)),
            Settlement::Estimate => Some((reserved, Basis::Estimated)),
        };
        match charge {
            None => {
                observe::released(&receipt, &self.call);
                self.ledger.release(receipt);
            }
            Some((actual, basis)) => {
                observe::settled(&receipt, &self.call, actual, basis);
                self.ledger.settle(receipt, actual, basis, &self.rules.alarm);
            }
        }
    }
}

/// What a call that is billed took, in the unit that was reserved: what is settled.
fn used(reserved: Amount, counts: &TokenCounts, cost: Option<NanoUsd>) -> Amount {
    match reserved.unit() {
        Unit::NanoUsd => match cost {
            Some(cost) => Amount::usd(cost.max(NanoUsd::ZERO)), // nobody earns by calling
            None => reserved,
        },
        Unit::Requests => reserved,
        Unit::Tokens => Amount::count(counts.total(), Unit::Tokens),
    }
}
