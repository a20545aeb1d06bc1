//! What the attempts of one call used: filled by Usage (and failover), read by those who settle.

use crate::{NanoUsd, TokenCounts};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Prices the counts of an attempt at the model and upstream that served it; `None` when that has no known price.
pub type Tariff = Arc<dyn Fn(&TokenCounts) -> Option<NanoUsd> + Send + Sync>;

/// How far an attempt came, as far as billing is concerned. It only moves forward, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UsageState {
    /// Handed to the upstream; no answer yet.
    Sent,
    /// Given up after it was sent: the upstream may bill it.
    MaybeBilled,
    /// Answered with a status other than 2xx: not billed.
    NotBilled,
    /// Answered 2xx; its usage is not final. What was cut here is estimated.
    Answered,
    /// The upstream told the final usage.
    Reported,
}

/// The usage of one attempt.
#[derive(Clone)]
#[non_exhaustive]
pub struct AttemptUsage {
    /// Which attempt, [`Attempt::n`](crate::Attempt): 0 without failover.
    pub n: u32,
    /// Usage told by the upstream so far. Providers send running totals: each report replaces the last.
    pub counts: TokenCounts,
    /// Output tokens passed on to the caller, by our own count.
    pub forwarded: u64,
    /// The price of `counts`, once they are final.
    pub cost: Option<NanoUsd>,
    /// How far it came.
    pub state: UsageState,
    /// Prices counts for this attempt; put by Usage.
    pub tariff: Option<Tariff>,
}

impl AttemptUsage {
    fn new(n: u32) -> Self {
        Self {
            n,
            counts: TokenCounts::default(),
            forwarded: 0,
            cost: None,
            state: UsageState::Sent,
            tariff: None,
        }
    }

    /// Moves the state forward; a later, weaker report (a late drop) changes nothing.
    pub fn advance(&mut self, state: UsageState) {
        self.state = self.state.max(state);
    }
}

impl fmt::Debug for AttemptUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptUsage")
            .field("n", &self.n)
            .field("counts", &self.counts)
            .field("forwarded", &self.forwarded)
            .field("cost", &self.cost)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// The attempts of one call and which of them was served. One per [`Call`](crate::Call), shared by all layers.
///
/// Usage writes each figure *before* it returns the frame that told it, never in a `Drop`, so that the figure is
/// there whatever end the body meets.
#[derive(Debug, Default)]
pub struct UsageMeter(Mutex<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    list: Vec<AttemptUsage>,
    served: Option<u32>,
}

impl UsageMeter {
    /// Notes that attempt `n` was handed to an upstream. Failover does it per attempt, else Usage.
    pub fn sent(&self, n: u32) {
        self.update(n, |_| {});
    }

    /// Notes that attempt `n` is the one whose answer the caller gets. Failover does it when it commits.
    pub fn served(&self, n: u32) {
        self.lock().served = Some(n);
    }

    /// Changes the record of attempt `n`, which is made if there is none.
    pub fn update<T>(&self, n: u32, change: impl FnOnce(&mut AttemptUsage) -> T) -> T {
        let mut attempts = self.lock();
        let at = match attempts.list.iter().position(|attempt| attempt.n == n) {
            Some(at) => at,
            None => {
                attempts.list.push(AttemptUsage::new(n));
                attempts.list.len() - 1
            }
        };
        change(&mut attempts.list[at])
    }

    /// The attempts so far, in the order in which they were sent.
    pub fn attempts(&self) -> Vec<AttemptUsage> {
        self.lock().list.clone()
    }

    /// Whether any attempt was handed to an upstream.
    pub fn any_sent(&self) -> bool {
        !self.lock().list.is_empty()
    }

    /// The attempt that the caller gets, or got: what failover named, else attempt 0.
    pub fn served_attempt(&self) -> Option<AttemptUsage> {
        let attempts = self.lock();
        let n = attempts.served.unwrap_or(0);
        attempts.list.iter().find(|attempt| attempt.n == n).cloned()
    }

    /// Nothing here can panic while the lock is held, except a caller's closure; its record is still sound.
    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_drop_of_a_loser_overwrites_nothing() {
        let meter = UsageMeter::default();
        meter.sent(1);
        meter.sent(2);
        meter.update(2, |attempt| {
            attempt.counts = TokenCounts::new(10, 5);
            attempt.advance(UsageState::Reported);
        });
        meter.served(2);

        meter.update(1, |attempt| attempt.advance(UsageState::MaybeBilled));
        meter.update(2, |attempt| attempt.advance(UsageState::MaybeBilled));

        let served = meter.served_attempt().unwrap();
        assert_eq!((served.n, served.state), (2, UsageState::Reported));
        assert_eq!(served.counts, TokenCounts::new(10, 5));
    }

    #[test]
    fn without_failover_attempt_0_is_served() {
        let meter = UsageMeter::default();
        assert!(meter.served_attempt().is_none());
        meter.sent(0);
        assert_eq!(meter.served_attempt().unwrap().n, 0);
    }
}
