//! One account in one window: sums, alerts, and whether there is room.

use crate::{Account, AlertCause, Amount, Balance, Claim, Span, Unit, ledger::Hold};
use std::time::SystemTime;

/// One account in one window and unit. The limit is not a part of it, so that a plan may change at any time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    account: Account,
    start: SystemTime,
    end: SystemTime,
    unit: Unit,
}

impl Key {
    pub(super) fn of(hold: &Hold) -> Self {
        Self {
            account: hold.claim.account.clone(),
            start: hold.span.start,
            end: hold.span.end,
            unit: hold.claim.limit.unit(),
        }
    }
}

/// Sums of `i64` amounts: an `i128` cannot overflow.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) spent: i128,
    pub(super) reserved: i128,
    /// Reservations that may still be settled here, expired ones too.
    pub(super) unsettled: usize,
    /// Bit `p` is set once the alert at `p` percent fired.
    alerted: u128,
    /// The claim seen last: its limit and thresholds hold for settlements too.
    pub(super) claim: Claim,
}

impl Book {
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            spent: 0,
            reserved: 0,
            unsettled: 0,
            alerted: 0,
            claim: claim.clone(),
        }
    }

    /// Notes what applies to the account now.
    pub(super) fn seen(&mut self, claim: &Claim) -> &Self {
        self.claim = claim.clone();
        self
    }

    /// Whether there is no room. To exactly the limit is admitted, and what costs nothing always is.
    pub(super) fn lacks(&self, amount: Amount) -> bool {
        let amount = i128::from(amount.value());
        amount != 0 && self.spent + self.reserved + amount > i128::from(self.claim.limit.value())
    }

    /// Sets the bits of thresholds that are crossed.
    pub(super) fn cross(&mut self, refused: bool) -> Vec<(u8, AlertCause)> {
        let limit = i128::from(self.claim.limit.value());
        let mut crossed = Vec::new();
        for &percent in &*self.claim.alert_at {
            let Some(bit) = 1u128.checked_shl(percent.into()) else {
                continue; // no threshold: they are from 1 to 100
            };
            let cause = if self.spent * 100 >= limit * i128::from(percent) {
                AlertCause::Spent
            } else if refused {
                AlertCause::Reserved
            } else {
                continue;
            };
            if self.alerted & bit == 0 {
                self.alerted |= bit;
                crossed.push((percent, cause));
            }
        }
        crossed
    }

    pub(super) fn balance(&self, claim: &Claim, span: Span, now: SystemTime) -> Balance {
        let shown = |sum: i128| i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX });
        Balance::new(claim, shown(self.spent), shown(self.reserved), span, now)
    }
}
