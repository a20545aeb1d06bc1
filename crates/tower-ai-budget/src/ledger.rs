//! What a ledger is: reserve the most a call can cost, then settle what it did cost.
//!
//! The trait fits a store in this process and one over a network:
//!
//! - There is no `now` parameter. The store's clock decides, and its replies carry the time and durations.
//! - A reply is admitted, refused, or unavailable. What is not known is never a no, nor a yes.
//! - [`Ledger::settle`] and [`Ledger::release`] return at once, so that a guard's `Drop` can call them, and are
//!   idempotent by the reservation's id: a store that does not know whether its message arrived sends it again.
//! - Limits travel with each reservation. A plan that changes in mid-window just works, and so will a limit that is
//!   raised for a while.

mod memory;

pub use memory::{MemoryLedger, OnExpire};

use crate::{Account, Alarm, Alert, Amount, Span, Window};
use std::{
    borrow::Cow,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tower_ai_core::{Basis, Step};

/// Keeps the books of accounts. Clones are handles to the same books.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// The reply of a store that cannot answer at once: one boxed future for a remote one.
    type Reserving: Future<Output = Reserved> + Send;

    /// Holds `amount` on every account of `claims`, or on none. An amount of zero is held even where nothing is left.
    ///
    /// A reservation that is neither settled nor released is taken back after `lease`. The same id again gives the
    /// same receipt and holds nothing more.
    ///
    /// A store that works in the background releases what it held for a caller that dropped the future.
    fn reserve(
        &self,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        lease: Duration,
    ) -> Step<Reserved, Self::Reserving>;

    /// Books `actual` in the windows in which it was reserved, and gives the rest back. What exceeds the reservation
    /// is booked in full. `alarm` is told what thresholds that crosses.
    ///
    /// Never blocks. Only the first settlement or release of a receipt counts.
    fn settle(&self, receipt: Receipt, actual: Amount, basis: Basis, alarm: &Alarm);

    /// Gives all of it back. Never blocks. Only the first settlement or release of a receipt counts.
    fn release(&self, receipt: Receipt);

    /// What an account has used in the window that it is now. Changes nothing.
    fn balance(&self, claim: &Claim) -> impl Future<Output = Result<Balance, Unavailable>> + Send;

    /// Books what is still under way, for at most `limit`: the last thing before the process ends.
    fn drain(&self, limit: Duration) -> impl Future<Output = Drained> + Send;
}

/// The name of one reservation: fresh for each call. A call that an SDK repeats is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(u128);

impl ReservationId {
    /// An id that no process had before: 64 random bits of this process, and a counter.
    pub fn fresh() -> Self {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = *PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(u128::from(process) << 64 | u128::from(count))
    }

    /// For a store's keys.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One account that a call is to be held on, with what applies to it now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The account.
    pub account: Account,
    /// The windows it is counted in.
    pub window: Window,
    /// The most that may be spent and reserved in a window.
    pub limit: Amount,
    /// The thresholds of alerts, from 1 to 100 % of the limit.
    pub alert_at: Arc<[u8]>,
    /// The plan that all this comes from, for alerts and journals; empty if plans have no names.
    pub plan: Arc<str>,
}

impl Claim {
    /// A claim with no alerts and no plan; set them as needed.
    pub fn new(account: Account, window: Window, limit: Amount) -> Self {
        Self {
            account,
            window,
            limit,
            alert_at: Arc::default(),
            plan: Arc::default(),
        }
    }
}

/// What [`Ledger::reserve`] came to.
#[derive(Clone, Debug)]
#[must_use]
pub enum Reserved {
    /// Held on every account.
    Admitted {
        /// Hand it in when the call is over.
        receipt: Receipt,
        /// The accounts after the decision.
        statement: Statement,
    },
    /// Held on none.
    Refused {
        /// The claim that has no room; of several, the one that has none for longest.
        over: usize,
        /// The accounts as they are.
        statement: Statement,
    },
    /// The store does not say.
    Unavailable(Unavailable),
}

/// The accounts of a decision, and what it set off.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statement {
    /// The store's time.
    pub now: SystemTime,
    /// One for each claim, in their order.
    pub balances: Vec<Balance>,
    /// Thresholds crossed for the first time. Told once: raise them before you answer.
    pub alerts: Vec<Alert>,
}

impl Statement {
    /// A statement of these balances.
    pub fn new(now: SystemTime, balances: Vec<Balance>, alerts: Vec<Alert>) -> Self {
        Self {
            now,
            balances,
            alerts,
        }
    }
}

/// One account in one window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Balance {
    /// The account.
    pub account: Account,
    /// The most that may be spent and reserved.
    pub limit: Amount,
    /// Settled. More than the limit where a call cost more than it had reserved: that is debt.
    pub spent: Amount,
    /// Held by calls that are under way.
    pub reserved: Amount,
    /// The window; prints when it resets.
    pub span: Span,
    /// Time until then, by the store's clock.
    pub reset_after: Duration,
}

impl Balance {
    /// The balance of a claim at the store's `now`.
    pub fn new(claim: &Claim, spent: i64, reserved: i64, span: Span, now: SystemTime) -> Self {
        let unit = claim.limit.unit();
        Self {
            account: claim.account.clone(),
            limit: claim.limit,
            spent: Amount::new(spent, unit),
            reserved: Amount::new(reserved, unit),
            reset_after: span.reset_after(now),
            span,
        }
    }
}

/// Says what was reserved, and in which windows: all that a store needs to settle it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receipt {
    id: ReservationId,
    amount: Amount,
    holds: Arc<[Hold]>,
}

/// One account of a receipt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hold {
    /// As it was claimed.
    pub claim: Claim,
    /// The window that the store's clock was in.
    pub span: Span,
}

impl Hold {
    /// A claim that was held in this window.
    pub fn new(claim: Claim, span: Span) -> Self {
        Self { claim, span }
    }
}

impl Receipt {
    /// A receipt for `amount`, held on each of `holds`.
    pub fn new(id: ReservationId, amount: Amount, holds: impl Into<Arc<[Hold]>>) -> Self {
        Self {
            id,
            amount,
            holds: holds.into(),
        }
    }

    /// Of which reservation.
    pub fn id(&self) -> ReservationId {
        self.id
    }

    /// What was reserved.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// Where it was reserved.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }
}

/// A ledger that does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(Cow<'static, str>);

impl Unavailable {
    /// For this reason; it is logged, and not told to callers.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the ledger is unavailable: {}", self.0)
    }
}

impl std::error::Error for Unavailable {}

/// What [`Ledger::drain`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Settlements and releases that were under way and are booked now.
    pub settled: usize,
    /// Reservations that are still open: left to their leases.
    pub left: usize,
}
