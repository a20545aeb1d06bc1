//! The memory ledger does what an exact model does: in random histories, and in those that threads make together.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use proptest::prelude::*;
use std::{
    cell::Cell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use support::{
    Alerts, DAY, amount, claim, midnight,
    model::{DAY_S, Model},
    tenant,
};
use testkit::SetClock;
use tower_ai_budget::{Claim, Ledger, MemoryLedger, OnExpire, Receipt, ReservationId, Reserved};
use tower_ai_core::{Basis, Step, WallClock};

const LIMITS: [i128; 3] = [100, 250, 40];

fn claims(accounts: &[usize]) -> Vec<Claim> {
    accounts
        .iter()
        .map(|&account| {
            let limit = i64::try_from(LIMITS[account]).unwrap();
            let mut claim = claim(tenant(&account.to_string()), limit);
            claim.alert_at = [50, 80].into();
            claim
        })
        .collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[derive(Clone, Debug)]
enum Op {
    Reserve {
        accounts: Vec<usize>,
        amount: i64,
        lease_s: u64,
    },
    /// Of the `nth` reservation that was admitted, open or not.
    Settle {
        nth: usize,
        actual: i64,
    },
    Release {
        nth: usize,
    },
    Wait {
        seconds: u64,
    },
}

fn ops(actual_at_most_reserved: bool) -> impl Strategy<Value = Vec<Op>> {
    let accounts = proptest::sample::subsequence(vec![0, 1, 2], 1..=3);
    // Settlements below the smallest reservation keep `actual <= reserved`.
    let (reserved, actual) = if actual_at_most_reserved {
        (8..60i64, 0..8i64)
    } else {
        (0..60, 0..80)
    };
    let op = prop_oneof![
        6 => (accounts, reserved, 1..200u64)
            .prop_map(|(accounts, amount, lease_s)| Op::Reserve { accounts, amount, lease_s }),
        4 => (any::<usize>(), actual).prop_map(|(nth, actual)| Op::Settle { nth, actual }),
        2 => any::<usize>().prop_map(|nth| Op::Release { nth }),
        3 => (0..90u64).prop_map(|seconds| Op::Wait { seconds }),
        1 => (20_000..100_000u64).prop_map(|seconds| Op::Wait { seconds }),
    ];
    prop::collection::vec(op, 1..120)
}

fn policies() -> impl Strategy<Value = OnExpire> {
    prop_oneof![Just(OnExpire::Release), Just(OnExpire::Charge)]
}

fn run(ops: Vec<Op>, policy: OnExpire, never_overdrawn: bool) -> Result<(), TestCaseError> {
    let hands = SetClock::at(midnight() + DAY / 2);
    let ledger = MemoryLedger::new().wall_clock(hands.clock()).on_expire(policy);
    let mut model = Model::new(policy);
    let mut receipts: Vec<Receipt> = Vec::new();
    for op in ops {
        let now = seconds(hands.clock().now());
        match op {
            Op::Wait { seconds } => hands.advance(Duration::from_secs(seconds)),
            Op::Reserve {
                accounts,
                amount: value,
                lease_s,
            } => {
                let id = ReservationId::fresh();
                let claims = claims(&accounts);
                let step = ledger.reserve(id, &claims, amount(value), Duration::from_secs(lease_s));
                let Step::Now(reserved) = step else { unreachable!() };
                let expected = model.reserve(now, id.as_u128(), &accounts, &LIMITS, value.into(), lease_s);
                let (is_admitted, statement) = match reserved {
                    Reserved::Admitted { receipt, statement } => {
                        receipts.push(receipt);
                        (true, statement)
                    }
                    Reserved::Refused { statement, .. } => (false, statement),
                    Reserved::Unavailable(reason) => panic!("{reason}"),
                };
                prop_assert_eq!((is_admitted, named(&statement.alerts)), expected);
                for (balance, &account) in statement.balances.iter().zip(&accounts) {
                    let sums = model.sums(account, now / DAY_S);
                    prop_assert_eq!(i128::from(balance.spent.value()), sums.spent);
                    prop_assert_eq!(i128::from(balance.reserved.value()), sums.reserved);
                }
            }
            Op::Settle { nth, actual } if !receipts.is_empty() => {
                let receipt = &receipts[nth % receipts.len()];
                let alerts = Alerts::default();
                ledger.settle(receipt.clone(), amount(actual), Basis::Reported, &alerts.alarm());
                let expected = model.close(now, receipt.id().as_u128(), Some(actual.into()), &LIMITS);
                prop_assert_eq!(named(&alerts.seen()), expected);
            }
            Op::Release { nth } if !receipts.is_empty() => {
                let receipt = &receipts[nth % receipts.len()];
                ledger.release(receipt.clone());
                model.close(now, receipt.id().as_u128(), None, &LIMITS);
            }
            Op::Settle { .. } | Op::Release { .. } => {}
        }
        check(&ledger, &mut model, seconds(hands.clock().now()), never_overdrawn)?;
    }
    hands.advance(Duration::from_secs(200));
    prop_assert_eq!(ledger.open_reservations(), 0, "after the longest lease");
    Ok(())
}

fn named(alerts: &[tower_ai_budget::Alert]) -> Vec<(usize, u8)> {
    alerts
        .iter()
        .map(|alert| {
            let account = (0..3).find(|account| alert.account == tenant(&account.to_string()));
            (account.unwrap(), alert.percent)
        })
        .collect()
}

fn check(
    ledger: &MemoryLedger,
    model: &mut Model,
    now: u64,
    never_overdrawn: bool,
) -> Result<(), TestCaseError> {
    model.expire(now);
    prop_assert_eq!(ledger.open_reservations(), model.open());
    for (account, limit) in LIMITS.iter().enumerate() {
        let balance = futures_now(ledger.balance(&claims(&[account])[0])).unwrap();
        let (spent, reserved) = (
            i128::from(balance.spent.value()),
            i128::from(balance.reserved.value()),
        );
        let sums = model.sums(account, now / DAY_S);
        prop_assert_eq!((spent, reserved), (sums.spent, sums.reserved));
        prop_assert!(spent + reserved <= limit + model.unforeseen());
        prop_assert!(!never_overdrawn || spent + reserved <= *limit);
    }
    Ok(())
}

/// Memory never waits.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => unreachable!("memory answers at once"),
    }
}

proptest! {
    #[test]
    fn every_history_ends_as_the_model_says(ops in ops(false), policy in policies()) {
        run(ops, policy, false)?;
    }

    #[test]
    fn never_overdrawn_if_calls_cost_at_most_what_they_reserve_and_expired_ones_are_charged(ops in ops(true)) {
        run(ops, OnExpire::Charge, true)?;
    }
}

// === threads ===

thread_local! {
    /// What the clock last showed to this thread: the ledger looks once per step, while it decides.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// Whether it was admitted, the alerts, and what was spent and reserved on each account then.
type Reply = (bool, Vec<(usize, u8)>, Vec<(i64, i64)>);

/// A step of one thread, with its place in the order of all.
#[derive(Clone, Debug)]
enum Deed {
    Reserve {
        id: u128,
        accounts: Vec<usize>,
        amount: i64,
        lease_s: u64,
        reply: Reply,
    },
    Close {
        id: u128,
        actual: Option<i64>,
        alerts: Vec<(usize, u8)>,
    },
}

/// Threads reserve, settle, release and let expire at once. The clock goes on by one at each look, so that the times
/// that the ledger saw tell the order in which it decided; the model, told the same in that order, must agree about
/// every verdict, every balance and every alert.
#[test]
fn threads_together_make_a_history_that_the_model_would_make_alone() {
    for (round, policy) in [OnExpire::Release, OnExpire::Charge]
        .into_iter()
        .cycle()
        .take(20)
        .enumerate()
    {
        let ticks = Arc::new(AtomicU64::new(0));
        let tick = ticks.clone();
        // A tick is a second: leases of some hundred steps expire, and the day changes after 43,200.
        let start = midnight() + DAY / 2;
        let clock = WallClock::from_fn(move || {
            let now = tick.fetch_add(1, Ordering::SeqCst);
            SEEN.set(now);
            start + Duration::from_secs(now)
        });
        let ledger = MemoryLedger::new().wall_clock(clock).on_expire(policy);
        let history = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (ledger, history) = (ledger.clone(), &history);
                scope.spawn(move || {
                    let steps = work(&ledger, round as u64 * 4 + thread);
                    history.lock().unwrap().extend(steps);
                });
            }
        });
        let mut history = history.into_inner().unwrap();
        history.sort_by_key(|(at, _)| *at);
        replay(history, seconds(start), policy);
    }
}

fn work(ledger: &MemoryLedger, seed: u64) -> Vec<(u64, Deed)> {
    let mut random = Random(seed);
    let mut steps = Vec::new();
    let mut open: Vec<Receipt> = Vec::new();
    for _ in 0..400 {
        if open.is_empty() || random.below(5) < 2 {
            let mut accounts: Vec<usize> = (0..3).filter(|_| random.below(2) == 0).collect();
            if random.below(2) == 0 {
                accounts.reverse(); // both orders: nothing may depend on it
            }
            if accounts.is_empty() {
                accounts.push(0);
            }
            let (value, lease_s) = (random.below(20) as i64, 1 + random.below(300));
            let id = ReservationId::fresh();
            let step = ledger.reserve(
                id,
                &claims(&accounts),
                amount(value),
                Duration::from_secs(lease_s),
            );
            let at = SEEN.get();
            let Step::Now(reserved) = step else { unreachable!() };
            let (is_admitted, statement) = match reserved {
                Reserved::Admitted { receipt, statement } => {
                    open.push(receipt);
                    (true, statement)
                }
                Reserved::Refused { statement, .. } => (false, statement),
                Reserved::Unavailable(reason) => panic!("{reason}"),
            };
            let balances = statement
                .balances
                .iter()
                .map(|b| (b.spent.value(), b.reserved.value()));
            let reply = (is_admitted, named(&statement.alerts), balances.collect());
            steps.push((
                at,
                Deed::Reserve {
                    id: id.as_u128(),
                    accounts,
                    amount: value,
                    lease_s,
                    reply,
                },
            ));
        } else {
            let receipt = open[random.below(open.len() as u64) as usize].clone();
            let actual = (random.below(3) > 0).then(|| random.below(25) as i64);
            let alerts = Alerts::default();
            match actual {
                Some(actual) => {
                    ledger.settle(receipt.clone(), amount(actual), Basis::Reported, &alerts.alarm())
                }
                None => ledger.release(receipt.clone()),
            }
            let (id, alerts) = (receipt.id().as_u128(), named(&alerts.seen()));
            steps.push((SEEN.get(), Deed::Close { id, actual, alerts }));
            if random.below(3) > 0 {
                open.retain(|other| other.id() != receipt.id()); // else it is closed once more later
            }
        }
    }
    steps
}

fn replay(history: Vec<(u64, Deed)>, start: u64, policy: OnExpire) {
    let mut model = Model::new(policy);
    for (at, step) in history {
        let now = start + at;
        match step {
            Deed::Reserve {
                id,
                accounts,
                amount,
                lease_s,
                reply,
            } => {
                let (is_admitted, alerts) =
                    model.reserve(now, id, &accounts, &LIMITS, amount.into(), lease_s);
                let balances = accounts
                    .iter()
                    .map(|&account| {
                        let sums = model.sums(account, now / DAY_S);
                        (sums.spent as i64, sums.reserved as i64)
                    })
                    .collect::<Vec<_>>();
                assert_eq!(reply, (is_admitted, alerts, balances), "at {at}");
            }
            Deed::Close { id, actual, alerts } => {
                let expected = model.close(now, id, actual.map(i128::from), &LIMITS);
                assert_eq!(alerts, expected, "at {at}");
            }
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
