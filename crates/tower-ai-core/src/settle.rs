//! What a reservation comes to when its call is over: one table for budgets (cost) and limits (tokens).
//!
//! The first row that applies:
//!
//! | row | case | settled |
//! |---|---|---|
//! | a | the head carries [`RefusedBy`](crate::RefusedBy), the inner service failed, or the call was dropped, and nothing was sent upstream | released |
//! | b | the call was answered, and no attempt served it with a 2xx | what is known to be billed, else released (4xx and 5xx are not billed) |
//! | c | 2xx, and its final usage arrived | that usage, plus other attempts known to be billed |
//! | d | 2xx without final usage (none, unreadable, cut, or left while it was held back) | the larger of what was reported and the full input + the output that was passed on; marked estimated |
//! | e | dropped after an attempt was sent that may be billed, before a 2xx | the full input, marked maybe billed (released by choice) |
//! | f | 2xx and no Usage in the stack, so that c and d cannot be told | the estimate, marked estimated |
//!
//! A failed inner service counts as answered in row b: it is known not to have answered 2xx.

use crate::{AttemptUsage, Call, Estimate, LayerKind, NanoUsd, TokenCounts, UsageState};

/// How the inner call ended, as the layer that settles saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A head came that one of our layers made ([`RefusedBy`](crate::RefusedBy)).
    Refused,
    /// The inner service returned `Err`.
    Failed,
    /// The future was dropped before there was a head.
    Dropped,
    /// A head with a 2xx status came (its body may have met any end).
    Success,
    /// A head with another status came from the inner service.
    Error,
}

/// On what ground a charge is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The provider told the usage (rows b, c).
    Reported,
    /// Estimated from what is known (rows d, f).
    Estimated,
    /// The provider may or may not bill it (row e).
    MaybeBilled,
}

/// What to do with a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Give all of it back.
    Release,
    /// Charge this instead of what was reserved.
    Charge {
        /// Tokens used.
        counts: TokenCounts,
        /// What they cost; `None` when no price is known: then the reservation is the charge.
        cost: Option<NanoUsd>,
        /// On what ground.
        basis: Basis,
    },
    /// Charge what was reserved (row f).
    Estimate,
}

/// Applies the table to a call that is over.
///
/// ```
/// use tower_ai_core::{Call, Outcome, Settlement, settlement};
///
/// let call = Call::default();
/// assert_eq!(settlement(&call, Outcome::Refused), Settlement::Release);
/// assert_eq!(settlement(&call, Outcome::Success), Settlement::Estimate); // no Usage in the stack
/// ```
pub fn settlement(call: &Call, outcome: Outcome) -> Settlement {
    let attempts = call.meter().attempts();
    // Who marks what was sent is Failover, else Usage. With neither in the stack, calling the inner service sent it.
    let watched = call.has(LayerKind::Usage) || call.has(LayerKind::Failover);
    let sent = if watched {
        !attempts.is_empty()
    } else {
        outcome != Outcome::Refused
    };

    if !sent && outcome != Outcome::Success && outcome != Outcome::Error {
        return Settlement::Release; // a
    }
    // A caller who leaves while an answer is held back leaves an attempt that was answered, and not yet named as served.
    let last = || attempts.last().filter(|_| outcome == Outcome::Dropped).cloned();
    let served = call
        .meter()
        .served_attempt()
        .or_else(last)
        .filter(|served| served.state >= UsageState::Answered);
    match (outcome, served) {
        (Outcome::Success, _) if !call.has(LayerKind::Usage) => Settlement::Estimate, // f
        (_, Some(served)) => {
            let (counts, cost, basis) = served_charge(call, &served);
            charge(with_billed(&attempts, Some(served.n), counts, cost), basis) // c, d
        }
        (Outcome::Dropped, None) if may_be_billed(watched, &attempts) => maybe_billed(call, &attempts), // e
        (_, None) => match with_billed(&attempts, None, TokenCounts::default(), Some(NanoUsd::ZERO)) {
            (counts, _) if counts == TokenCounts::default() => Settlement::Release,
            billed => charge(billed, Basis::Reported),
        }, // b
    }
}

fn charge((counts, cost): (TokenCounts, Option<NanoUsd>), basis: Basis) -> Settlement {
    Settlement::Charge { counts, cost, basis }
}

/// Rows c and d for the attempt whose answer the caller got.
fn served_charge(call: &Call, served: &AttemptUsage) -> (TokenCounts, Option<NanoUsd>, Basis) {
    if served.state == UsageState::Reported {
        return (
            served.counts,
            served.cost.or_else(|| price(served, &served.counts)),
            Basis::Reported,
        );
    }
    let mut counts = served.counts;
    counts.input = counts.input.max(full_input(call));
    // Our own count is a guess by length (an image in a document looks like a novel); the request's bound is a fact.
    let bound = call
        .estimate()
        .and_then(Estimate::output_bound)
        .unwrap_or(u64::MAX);
    counts.output = counts.output.max(served.forwarded.min(bound));
    (counts, price(served, &counts), Basis::Estimated)
}

/// Adds what the other attempts are known to be billed for.
fn with_billed(
    attempts: &[AttemptUsage],
    served: Option<u32>,
    counts: TokenCounts,
    cost: Option<NanoUsd>,
) -> (TokenCounts, Option<NanoUsd>) {
    attempts
        .iter()
        .filter(|other| Some(other.n) != served && other.state == UsageState::Reported)
        .fold((counts, cost), |(counts, cost), other| {
            let other_cost = other.cost.or_else(|| price(other, &other.counts));
            let sum = cost
                .zip(other_cost)
                .map(|(cost, other)| cost.saturating_add(other));
            (counts.plus(&other.counts), sum)
        })
}

/// Whether an attempt may be billed of which nothing is known; one that was answered 4xx or 5xx is not.
fn may_be_billed(watched: bool, attempts: &[AttemptUsage]) -> bool {
    let unknown = |attempt: &AttemptUsage| attempt.state <= UsageState::MaybeBilled;
    !watched || attempts.iter().any(unknown)
}

fn maybe_billed(call: &Call, attempts: &[AttemptUsage]) -> Settlement {
    let counts = TokenCounts::new(full_input(call), 0);
    let cost = attempts.last().and_then(|last| price(last, &counts));
    charge(with_billed(attempts, None, counts, cost), Basis::MaybeBilled)
}

fn full_input(call: &Call) -> u64 {
    call.estimate()
        .copied()
        .unwrap_or(Estimate::assumed())
        .counts()
        .input
}

fn price(attempt: &AttemptUsage, counts: &TokenCounts) -> Option<NanoUsd> {
    attempt.tariff.as_ref().and_then(|tariff| tariff(counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Input costs 1 nano-dollar a token, output 10.
    fn tariff() -> Option<crate::Tariff> {
        Some(Arc::new(|counts: &TokenCounts| {
            Some(NanoUsd::from_nanos((counts.input + 10 * counts.output) as i64))
        }))
    }

    fn stack(layers: &[LayerKind]) -> Call {
        let call = Call::default();
        layers.iter().for_each(|layer| call.enter(*layer));
        call.set_estimate(Estimate::given(100, 50).unwrap());
        call
    }

    fn attempt(call: &Call, n: u32, state: UsageState, counts: TokenCounts, forwarded: u64) {
        call.meter().update(n, |attempt| {
            attempt.counts = counts;
            attempt.forwarded = forwarded;
            attempt.tariff = tariff();
            attempt.advance(state);
        });
    }

    fn charged(input: u64, output: u64, basis: Basis) -> Settlement {
        let cost = Some(NanoUsd::from_nanos((input + 10 * output) as i64));
        Settlement::Charge {
            counts: TokenCounts::new(input, output),
            cost,
            basis,
        }
    }

    #[test]
    fn row_a_what_was_never_sent_is_released() {
        for outcome in [Outcome::Refused, Outcome::Failed, Outcome::Dropped] {
            assert_eq!(
                settlement(&stack(&[LayerKind::Usage]), outcome),
                Settlement::Release,
                "{outcome:?}"
            );
        }
        assert_eq!(settlement(&stack(&[]), Outcome::Refused), Settlement::Release);
    }

    #[test]
    fn row_b_errors_are_not_billed() {
        let call = stack(&[LayerKind::Failover, LayerKind::Usage]);
        attempt(&call, 1, UsageState::NotBilled, TokenCounts::default(), 0);
        attempt(&call, 2, UsageState::MaybeBilled, TokenCounts::default(), 0);
        for outcome in [Outcome::Refused, Outcome::Error, Outcome::Failed] {
            assert_eq!(settlement(&call, outcome), Settlement::Release, "{outcome:?}");
        }
    }

    #[test]
    fn row_b_a_billed_attempt_is_charged_even_when_the_call_failed() {
        let call = stack(&[LayerKind::Failover, LayerKind::Usage]);
        attempt(&call, 1, UsageState::Reported, TokenCounts::new(7, 1), 0);
        attempt(&call, 2, UsageState::NotBilled, TokenCounts::default(), 0);
        assert_eq!(
            settlement(&call, Outcome::Refused),
            charged(7, 1, Basis::Reported)
        );
    }

    #[test]
    fn row_c_reported_usage_is_charged_with_other_billed_attempts() {
        let call = stack(&[LayerKind::Failover, LayerKind::Usage]);
        attempt(&call, 1, UsageState::Reported, TokenCounts::new(7, 0), 0);
        attempt(&call, 2, UsageState::Reported, TokenCounts::new(90, 20), 3);
        call.meter().served(2);
        assert_eq!(
            settlement(&call, Outcome::Success),
            charged(97, 20, Basis::Reported)
        );
    }

    #[test]
    fn row_d_a_cut_answer_costs_full_input_and_the_output_passed_on() {
        let call = stack(&[LayerKind::Usage]);
        attempt(&call, 0, UsageState::Answered, TokenCounts::new(80, 1), 12);
        assert_eq!(
            settlement(&call, Outcome::Success),
            charged(100, 12, Basis::Estimated)
        );
    }

    #[test]
    fn row_d_a_caller_who_leaves_while_an_answer_is_held_back_pays_for_it() {
        let call = stack(&[LayerKind::Failover, LayerKind::Usage]);
        attempt(&call, 1, UsageState::NotBilled, TokenCounts::default(), 0);
        attempt(&call, 2, UsageState::Answered, TokenCounts::new(20, 1), 3);
        assert_eq!(
            settlement(&call, Outcome::Dropped),
            charged(100, 3, Basis::Estimated)
        );
    }

    #[test]
    fn an_answer_that_no_upstream_gave_costs_nothing() {
        let call = stack(&[LayerKind::Failover, LayerKind::Usage]); // a cache inside, say
        assert_eq!(settlement(&call, Outcome::Success), Settlement::Release);
    }

    #[test]
    fn row_d_our_own_count_never_exceeds_the_bound_that_the_request_set() {
        let call = Call::default();
        call.enter(LayerKind::Usage);
        call.set_estimate(Estimate::given(100, 60).unwrap().with_output_bound(60));
        attempt(&call, 0, UsageState::Answered, TokenCounts::default(), 2_000_000);
        assert_eq!(
            settlement(&call, Outcome::Success),
            charged(100, 60, Basis::Estimated)
        );
    }

    #[test]
    fn row_d_what_was_reported_wins_when_it_is_larger() {
        let call = stack(&[LayerKind::Usage]);
        attempt(&call, 0, UsageState::Answered, TokenCounts::new(130, 40), 12);
        assert_eq!(
            settlement(&call, Outcome::Success),
            charged(130, 40, Basis::Estimated)
        );
    }

    #[test]
    fn row_e_dropped_before_an_answer_costs_the_full_input() {
        let call = stack(&[LayerKind::Usage]);
        attempt(&call, 0, UsageState::Sent, TokenCounts::default(), 0);
        assert_eq!(
            settlement(&call, Outcome::Dropped),
            charged(100, 0, Basis::MaybeBilled)
        );
    }

    #[test]
    fn row_e_holds_without_a_layer_that_marks_what_was_sent() {
        let Settlement::Charge { counts, cost, basis } = settlement(&stack(&[]), Outcome::Dropped) else {
            panic!("not charged");
        };
        assert_eq!(
            (counts, cost, basis),
            (TokenCounts::new(100, 0), None, Basis::MaybeBilled)
        );
    }

    #[test]
    fn row_e_dropped_between_attempts_that_are_not_billed_is_released() {
        let call = stack(&[LayerKind::Failover, LayerKind::Usage]);
        attempt(&call, 1, UsageState::NotBilled, TokenCounts::default(), 0);
        assert_eq!(settlement(&call, Outcome::Dropped), Settlement::Release);
        attempt(&call, 2, UsageState::Sent, TokenCounts::default(), 0);
        assert_eq!(
            settlement(&call, Outcome::Dropped),
            charged(100, 0, Basis::MaybeBilled)
        );
    }

    #[test]
    fn row_f_without_usage_the_estimate_is_the_charge() {
        assert_eq!(settlement(&stack(&[]), Outcome::Success), Settlement::Estimate);
        let call = stack(&[LayerKind::Failover]);
        attempt(&call, 1, UsageState::Answered, TokenCounts::default(), 0);
        assert_eq!(settlement(&call, Outcome::Success), Settlement::Estimate);
        assert_eq!(settlement(&stack(&[]), Outcome::Error), Settlement::Release);
        assert_eq!(settlement(&stack(&[]), Outcome::Failed), Settlement::Release);
    }
}
