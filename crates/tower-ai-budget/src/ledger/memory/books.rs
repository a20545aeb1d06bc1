//! The books themselves: values and functions of `now`, no clock and no lock.

use super::{
    OnExpire,
    book::{Book, Key},
};
use crate::{
    Alert, Amount, Balance, Claim, Receipt, ReservationId, Reserved, Statement, Unavailable, ledger::Hold,
    observe,
};
use std::{
    collections::{BTreeSet, HashMap, hash_map},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How long a window is remembered after its end, and an expired reservation after its lease.
const KEEP: Duration = Duration::from_secs(12 * 60 * 60);
/// How many old windows one call clears away at most: a midnight's worth must not stop everybody.
const FORGET_AT_ONCE: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) accounts: usize,
    pub(super) reservations: usize,
    pub(super) on_expire: OnExpire,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            accounts: 100_000,
            reservations: 100_000,
            on_expire: OnExpire::default(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Books {
    limits: Limits,
    accounts: HashMap<Key, Book>,
    /// When each book may be forgotten.
    ends: BTreeSet<(SystemTime, Key)>,
    reservations: HashMap<ReservationId, Entry>,
    /// When each reservation expires; once it has, when it may be forgotten.
    due: BTreeSet<(SystemTime, ReservationId)>,
    expired: usize,
}

#[derive(Debug)]
struct Entry {
    receipt: Receipt,
    due: SystemTime,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Its lease is over, and this was done.
    Expired(OnExpire),
}

impl Books {
    pub(super) fn limits_mut(&mut self) -> &mut Limits {
        &mut self.limits
    }

    pub(super) fn open(&mut self, now: SystemTime) -> usize {
        self.reclaim(now);
        self.reservations.len() - self.expired
    }

    pub(super) fn reserve(
        &mut self,
        now: SystemTime,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        lease: Duration,
    ) -> Reserved {
        self.reclaim(now);
        self.forget(now);
        if let Some(known) = self.reservations.get(&id) {
            return match known.state {
                State::Open => Reserved::Admitted {
                    receipt: known.receipt.clone(),
                    statement: self.statement(now, known.receipt.holds(), Vec::new()),
                },
                State::Expired(_) => Reserved::Unavailable(Unavailable::new("the lease is over")),
            };
        }
        let holds: Arc<[Hold]> = claims
            .iter()
            .map(|claim| Hold::new(claim.clone(), claim.window.at(now)))
            .collect();
        if let Err(reason) = self.check(&holds, amount) {
            return Reserved::Unavailable(Unavailable::new(reason));
        }

        // All or nothing: look at each account first, then change each.
        let full: Vec<bool> = holds
            .iter()
            .map(|hold| self.book_of(hold).seen(&hold.claim).lacks(amount))
            .collect();
        let over = (0..holds.len())
            .filter(|&at| full[at])
            .max_by_key(|&at| holds[at].span.end);
        if over.is_none() {
            for hold in &*holds {
                let book = self.book_of(hold);
                book.reserved += i128::from(amount.value());
                book.unsettled += 1;
            }
        }
        let alerts = self.alerts(now, &holds, |at| full[at]);
        let statement = self.statement(now, &holds, alerts);
        match over {
            Some(over) => Reserved::Refused { over, statement },
            None => {
                let receipt = Receipt::new(id, amount, holds);
                self.keep(receipt.clone(), later(now, lease), State::Open);
                Reserved::Admitted { receipt, statement }
            }
        }
    }

    /// The alerts that it sets off.
    pub(super) fn settle(&mut self, now: SystemTime, id: ReservationId, actual: Amount) -> Vec<Alert> {
        self.reclaim(now); // so that late is what comes after the lease, whoever looked at it in between
        match self.close(id, i128::from(actual.value())) {
            Some(receipt) => self.alerts(now, receipt.holds(), |_| false),
            None => Vec::new(),
        }
    }

    pub(super) fn release(&mut self, now: SystemTime, id: ReservationId) {
        self.reclaim(now);
        self.close(id, 0);
    }

    pub(super) fn balance(&mut self, now: SystemTime, claim: &Claim) -> Balance {
        self.reclaim(now);
        self.balance_of(now, &Hold::new(claim.clone(), claim.window.at(now)))
    }

    /// Why these cannot be reserved, whatever the accounts hold.
    fn check(&self, holds: &[Hold], amount: Amount) -> Result<(), &'static str> {
        let keys: Vec<_> = holds.iter().map(Key::of).collect();
        let unknown = keys.iter().filter(|key| !self.accounts.contains_key(key)).count();
        if amount.value() < 0 {
            Err("a negative amount")
        } else if holds.iter().any(|hold| hold.claim.limit.unit() != amount.unit()) {
            Err("a limit in another unit than the amount")
        } else if (1..keys.len()).any(|at| keys[..at].contains(&keys[at])) {
            Err("an account is claimed twice")
        } else if unknown > 0 && self.accounts.len() + unknown > self.limits.accounts {
            Err("too many accounts")
        } else if self.reservations.len() >= self.limits.reservations {
            Err("too many reservations")
        } else {
            Ok(())
        }
    }

    fn book_of(&mut self, hold: &Hold) -> &mut Book {
        match self.accounts.entry(Key::of(hold)) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => {
                self.ends.insert((later(hold.span.end, KEEP), new.key().clone()));
                new.insert(Book::new(&hold.claim))
            }
        }
    }

    /// Ends a reservation that costs `actual`. None is there if it was ended before: then nothing changes.
    fn close(&mut self, id: ReservationId, actual: i128) -> Option<Receipt> {
        let Entry { receipt, due, state } = self.reservations.remove(&id)?;
        self.due.remove(&(due, id));
        let reserved = i128::from(receipt.amount().value());
        let (reserved_less, spent_more) = match state {
            State::Open => (reserved, actual),
            State::Expired(OnExpire::Release) => (0, actual),
            State::Expired(OnExpire::Charge) => (0, actual - reserved),
        };
        if state != State::Open {
            self.expired -= 1;
            observe::late(&receipt);
        }
        self.book(&receipt, reserved_less, spent_more);
        self.leave(&receipt);
        Some(receipt)
    }

    fn book(&mut self, receipt: &Receipt, reserved_less: i128, spent_more: i128) {
        for hold in receipt.holds() {
            let book = self.book_of(hold);
            book.reserved -= reserved_less;
            book.spent += spent_more;
        }
    }

    /// The reservation will not be settled any more.
    fn leave(&mut self, receipt: &Receipt) {
        for hold in receipt.holds() {
            self.book_of(hold).unsettled -= 1;
        }
    }

    fn keep(&mut self, receipt: Receipt, due: SystemTime, state: State) {
        self.due.insert((due, receipt.id()));
        self.reservations
            .insert(receipt.id(), Entry { receipt, due, state });
    }

    /// Takes back what is older than its lease, and forgets what nobody settled for long.
    fn reclaim(&mut self, now: SystemTime) {
        while let Some(&(due, id)) = self.due.first()
            && due <= now
        {
            self.due.remove(&(due, id));
            let Some(Entry { receipt, state, .. }) = self.reservations.remove(&id) else {
                continue;
            };
            if state != State::Open {
                self.expired -= 1;
                self.leave(&receipt);
                continue;
            }
            let amount = i128::from(receipt.amount().value());
            let policy = self.limits.on_expire;
            let charged = match policy {
                OnExpire::Release => 0,
                OnExpire::Charge => amount,
            };
            observe::expired(&receipt, policy);
            self.book(&receipt, amount, charged);
            self.keep(receipt, later(due, KEEP), State::Expired(policy));
            self.expired += 1;
        }
    }

    /// Forgets some of the windows that ended long ago. One in which something may still be settled is kept.
    fn forget(&mut self, now: SystemTime) {
        for _ in 0..FORGET_AT_ONCE {
            match self.ends.first() {
                Some((end, _)) if *end <= now => {}
                _ => return,
            }
            let Some((_, key)) = self.ends.pop_first() else {
                return;
            };
            if self.accounts.get(&key).is_some_and(|book| book.unsettled > 0) {
                self.ends.insert((later(now, KEEP), key));
            } else {
                self.accounts.remove(&key);
            }
        }
    }

    /// Thresholds that are crossed for the first time: by what is spent, or because the account refuses.
    fn alerts(&mut self, now: SystemTime, holds: &[Hold], refuses: impl Fn(usize) -> bool) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for (at, hold) in holds.iter().enumerate() {
            let Some(book) = self.accounts.get_mut(&Key::of(hold)) else {
                continue;
            };
            for (percent, cause) in book.cross(refuses(at)) {
                let balance = book.balance(&book.claim, hold.span.clone(), now);
                alerts.push(Alert::new(&balance, book.claim.plan.clone(), percent, cause));
            }
        }
        alerts
    }

    fn statement(&self, now: SystemTime, holds: &[Hold], alerts: Vec<Alert>) -> Statement {
        let balances = holds.iter().map(|hold| self.balance_of(now, hold)).collect();
        Statement::new(now, balances, alerts)
    }

    fn balance_of(&self, now: SystemTime, hold: &Hold) -> Balance {
        let empty = Book::new(&hold.claim);
        let book = self.accounts.get(&Key::of(hold)).unwrap_or(&empty);
        book.balance(&hold.claim, hold.span.clone(), now)
    }
}

fn later(time: SystemTime, by: Duration) -> SystemTime {
    // About the year 2500: later than any clock that is right, and every platform can hold it.
    const NEVER: Duration = Duration::from_secs(530 * 365 * 24 * 60 * 60);
    time.checked_add(by).unwrap_or(SystemTime::UNIX_EPOCH + NEVER)
}
