//! An exact model of a ledger, as slow and plain as can be: a list of all that ever happened. Every figure is a sum over
//! the whole list. It shares no code with the ledger.

use std::collections::BTreeSet;
use tower_ai_budget::OnExpire;

pub const DAY_S: u64 = 86_400;
/// How long an expired reservation can still be settled.
const KEEP_S: u64 = 12 * 3_600;

#[derive(Debug)]
pub struct Model {
    pub on_expire: OnExpire,
    pub list: Vec<Entry>,
    /// Account, day and percent of each alert.
    pub alerted: BTreeSet<(usize, u64, u8)>,
}

#[derive(Debug)]
pub struct Entry {
    pub id: u128,
    pub accounts: Vec<usize>,
    pub day: u64,
    pub amount: i128,
    pub due: u64,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Open,
    Expired,
    Settled { actual: i128, late: bool },
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    pub spent: i128,
    pub reserved: i128,
}

impl Model {
    pub fn new(on_expire: OnExpire) -> Self {
        Self {
            on_expire,
            list: Vec::new(),
            alerted: BTreeSet::new(),
        }
    }

    pub fn sums(&self, account: usize, day: u64) -> Sums {
        let mut sums = Sums {
            spent: 0,
            reserved: 0,
        };
        for entry in &self.list {
            if entry.day == day && entry.accounts.contains(&account) {
                match entry.fate {
                    Fate::Open => sums.reserved += entry.amount,
                    Fate::Settled { actual, .. } => sums.spent += actual,
                    Fate::Expired if self.on_expire == OnExpire::Charge => sums.spent += entry.amount,
                    Fate::Expired | Fate::Released => {}
                }
            }
        }
        sums
    }

    /// Whether it is admitted, and the alerts. All accounts have the limit of their index.
    pub fn reserve(
        &mut self,
        now: u64,
        id: u128,
        accounts: &[usize],
        limits: &[i128],
        amount: i128,
        lease: u64,
    ) -> (bool, Vec<(usize, u8)>) {
        self.expire(now);
        let day = now / DAY_S;
        let is_full = |model: &Self, account: usize| {
            let sums = model.sums(account, day);
            amount > 0 && sums.spent + sums.reserved + amount > limits[account]
        };
        let full: Vec<usize> = accounts
            .iter()
            .copied()
            .filter(|account| is_full(self, *account))
            .collect();
        if full.is_empty() {
            self.list.push(Entry {
                id,
                accounts: accounts.to_vec(),
                day,
                amount,
                due: now + lease,
                fate: Fate::Open,
            });
        }
        let alerts = self.alerts(accounts, day, limits, |account| full.contains(&account));
        (full.is_empty(), alerts)
    }

    /// Books; the alerts.
    pub fn close(&mut self, now: u64, id: u128, actual: Option<i128>, limits: &[i128]) -> Vec<(usize, u8)> {
        self.expire(now);
        let Some(entry) = self.list.iter_mut().find(|entry| entry.id == id) else {
            return Vec::new();
        };
        let late = match entry.fate {
            Fate::Open => false,
            Fate::Expired if now < entry.due + KEEP_S => true,
            _ => return Vec::new(),
        };
        let (accounts, day) = (entry.accounts.clone(), entry.day);
        match actual {
            Some(actual) => {
                entry.fate = Fate::Settled { actual, late };
                self.alerts(&accounts, day, limits, |_| false)
            }
            None => {
                entry.fate = Fate::Released;
                Vec::new()
            }
        }
    }

    pub fn expire(&mut self, now: u64) {
        for entry in &mut self.list {
            if entry.fate == Fate::Open && entry.due <= now {
                entry.fate = Fate::Expired;
            }
        }
    }

    pub fn open(&self) -> usize {
        self.list.iter().filter(|entry| entry.fate == Fate::Open).count()
    }

    /// What was booked beyond what was reserved at the time: the most by which an account can be overdrawn.
    pub fn unforeseen(&self) -> i128 {
        self.list
            .iter()
            .map(|entry| match entry.fate {
                Fate::Settled { actual, late: true } if self.on_expire == OnExpire::Release => actual,
                Fate::Settled { actual, .. } => (actual - entry.amount).max(0),
                _ => 0,
            })
            .sum()
    }

    fn alerts(
        &mut self,
        accounts: &[usize],
        day: u64,
        limits: &[i128],
        refuses: impl Fn(usize) -> bool,
    ) -> Vec<(usize, u8)> {
        let mut fired = Vec::new();
        for &account in accounts {
            for percent in [50, 80] {
                let is_crossed = self.sums(account, day).spent * 100 >= limits[account] * i128::from(percent);
                if (is_crossed || refuses(account)) && self.alerted.insert((account, day, percent)) {
                    fired.push((account, percent));
                }
            }
        }
        fired
    }
}
