//! The ledger of one process.

mod book;
mod books;

use super::{Balance, Claim, Drained, Ledger, Receipt, ReservationId, Reserved, Unavailable};
use crate::{Alarm, Amount};
use books::{Books, Limits};
use std::{
    fmt,
    future::Ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tower_ai_core::{Basis, Step, WallClock};

/// What becomes of a reservation that is older than its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExpire {
    /// It is given back, which favours the account. A call that is settled after its lease can then overdraw.
    #[default]
    Release,
    /// It is charged, which never overdraws. A settlement that comes late corrects it.
    Charge,
}

/// Keeps the books in the memory of this process: exact, and forgotten with it.
///
/// All accounts are behind one lock, which is held for about a microsecond; several accounts are decided
/// all or nothing. Clones share the books and the settings.
///
/// - A reservation older than its lease is taken back by whatever touches the ledger next ([`OnExpire`]: given back by
///   default). If its call is settled after all, what it cost is booked in full, late, in the window it belongs to.
/// - Windows are forgotten 12 hours after they end (a day window after 36 hours), and so are expired reservations that
///   nobody settled.
/// - Accounts and reservations are bounded. A ledger that is full is unavailable to accounts that it does not know; it
///   never forgets what counts to make room.
///
/// ```
/// use tower_ai_budget::{MemoryLedger, OnExpire};
///
/// let ledger = MemoryLedger::new().on_expire(OnExpire::Charge).max_reservations(10_000);
/// assert_eq!(ledger.open_reservations(), 0);
/// ```
#[derive(Clone)]
pub struct MemoryLedger(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    books: Books,
    clock: WallClock,
}

impl MemoryLedger {
    /// Empty books, on the machine's clock.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Another clock: it decides which window it is and when leases end.
    pub fn wall_clock(self, clock: WallClock) -> Self {
        self.lock().clock = clock;
        self
    }

    /// What becomes of reservations older than their lease. Default: released.
    pub fn on_expire(self, policy: OnExpire) -> Self {
        self.limits(|limits| limits.on_expire = policy)
    }

    /// The most accounts, each counted once per window that is remembered. Default: 100,000.
    pub fn max_accounts(self, accounts: usize) -> Self {
        self.limits(|limits| limits.accounts = accounts)
    }

    /// The most reservations, open or expired and not forgotten yet. Default: 100,000.
    pub fn max_reservations(self, reservations: usize) -> Self {
        self.limits(|limits| limits.reservations = reservations)
    }

    /// Reservations that are neither settled, released nor expired.
    pub fn open_reservations(&self) -> usize {
        let mut shared = self.lock();
        let now = shared.clock.now();
        shared.books.open(now)
    }

    fn limits(self, change: impl FnOnce(&mut Limits)) -> Self {
        change(self.lock().books.limits_mut());
        self
    }

    /// Nothing under the lock panics; if it did, each book would still be sound by itself.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    type Reserving = Ready<Reserved>;

    fn reserve(
        &self,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        lease: Duration,
    ) -> Step<Reserved, Ready<Reserved>> {
        let mut shared = self.lock();
        let now = shared.clock.now();
        Step::Now(shared.books.reserve(now, id, claims, amount, lease))
    }

    fn settle(&self, receipt: Receipt, actual: Amount, _: Basis, alarm: &Alarm) {
        let alerts = {
            let mut shared = self.lock();
            let now = shared.clock.now();
            shared.books.settle(now, receipt.id(), actual)
        };
        // Without the lock: a hook may ask for a balance.
        alerts.into_iter().for_each(|alert| alarm.raise(alert));
    }

    fn release(&self, receipt: Receipt) {
        let mut shared = self.lock();
        let now = shared.clock.now();
        shared.books.release(now, receipt.id());
    }

    async fn balance(&self, claim: &Claim) -> Result<Balance, Unavailable> {
        let mut shared = self.lock();
        let now = shared.clock.now();
        Ok(shared.books.balance(now, claim))
    }

    /// Nothing is ever under way: it returns at once.
    async fn drain(&self, _: Duration) -> Drained {
        Drained {
            settled: 0,
            left: self.open_reservations(),
        }
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger")
            .field("open_reservations", &self.open_reservations())
            .finish_non_exhaustive()
    }
}
