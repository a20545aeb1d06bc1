//! What was taken for a request, and what of it is given back or added when the call is over.

use crate::{
    Correction, PerLimit, Store, Unit,
    ask::{Ask, Charge},
};
use tower_ai_core::{BodyEnd, OnEnd, Outcome, Settlement, settlement};

/// What an admitted request took. Dropped, it settles, once: in the body where tokens are to be corrected, else when
/// the head leaves.
pub(crate) struct Reservation<St: Store> {
    ask: Ask<St>,
    outcome: Outcome,
}

impl<St: Store> Reservation<St> {
    /// Of a call that has no outcome yet: dropped now, it was given up.
    pub(crate) fn new(ask: Ask<St>) -> Self {
        Self {
            ask,
            outcome: Outcome::Dropped,
        }
    }

    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// Whether how much was used is only known when the body ends.
    pub(crate) fn outlasts_the_head(&self) -> bool {
        self.outcome != Outcome::Refused && self.holds_tokens()
    }

    fn holds_tokens(&self) -> bool {
        let mut charges = self.ask.charges.iter();
        charges.any(|charge| charge.cost > 0 && charge.limit(&self.ask.set).unit() == Unit::Tokens)
    }

    /// Units used beyond those taken.
    fn delta(&self, charge: &Charge<St::Key>, tokens: Settlement) -> i64 {
        let taken = i64::try_from(charge.cost).unwrap_or(i64::MAX);
        match charge.limit(&self.ask.set).unit() {
            // A refusal is free across layers: what an inner one refused was no request (rule 10 of ARCHITECTURE.md).
            Unit::Requests if self.was_refused_unsent() => -taken,
            Unit::Requests => 0,
            Unit::Tokens => match tokens {
                Settlement::Estimate => 0,
                Settlement::Release => -taken,
                Settlement::Charge { counts, .. } => {
                    i64::try_from(counts.total()).unwrap_or(i64::MAX) - taken
                }
            },
        }
    }

    fn was_refused_unsent(&self) -> bool {
        self.outcome == Outcome::Refused && !self.ask.call.meter().any_sent()
    }
}

impl<St: Store> OnEnd for Reservation<St> {
    /// The end does not matter: the meter was filled before each frame came.
    fn on_end(self, _: BodyEnd) {}
}

impl<St: Store> Drop for Reservation<St> {
    fn drop(&mut self) {
        if !self.holds_tokens() && !self.was_refused_unsent() {
            return;
        }
        let settlement = settlement(&self.ask.call, self.outcome);
        // A limit that nothing was taken of is not concerned: the request was no call of a model.
        let charges = self.ask.charges.iter().filter(|charge| charge.cost > 0);
        let corrections: PerLimit<_> = charges
            .map(|charge| Correction {
                key: charge.key,
                limit: charge.limit(&self.ask.set),
                mark: charge.mark,
                delta: self.delta(charge, settlement),
            })
            .filter(|correction| correction.delta != 0)
            .collect();
        if !corrections.is_empty() {
            self.ask.store.correct(&corrections);
        }
    }
}
