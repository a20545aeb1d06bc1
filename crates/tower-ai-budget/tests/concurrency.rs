//! Many calls at once: never one too many, each in one window, alerts once.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{Alerts, DAY, admitted, amount, call_costing, claim, midnight, nanos, reserve, sums, tenant};
use testkit::{ScriptedBody, SetClock};
use tokio::{sync::Semaphore, task::JoinSet};
use tower::{Layer, ServiceExt, service_fn};
use tower_ai_budget::{
    Alarm, AlertCause, Amount, Balance, Budget, BudgetLayer, Claim, Drained, Hold, Ledger, MemoryLedger,
    Receipt, ReservationId, Reserved, Statement, Unavailable,
};
use tower_ai_core::{Basis, Call, Caller, LayerKind, RefusedBy, Step, UsageState, usd};

const CALLS: u32 = 200;

/// What became of 200 calls of one caller with a budget for seven, made at once. The inner service answers none of them
/// before all are decided.
struct Race {
    admitted: usize,
    /// By the provider's count.
    cost: i64,
    balance: Balance,
}

async fn race(ledger: impl Ledger) -> Race {
    let (decided, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (admitted, cost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicI64::new(0)));
    let layer = BudgetLayer::new(ledger, Budget::daily(usd!(0.70))).unwrap();
    let service = {
        let (decided, gate, admitted, cost) = (decided.clone(), gate.clone(), admitted.clone(), cost.clone());
        layer.layer(service_fn(move |request: Request<ScriptedBody>| {
            let (decided, gate, cost) = (decided.clone(), gate.clone(), cost.clone());
            let n = admitted.fetch_add(1, Ordering::Relaxed);
            async move {
                decided.add_permits(1);
                gate.acquire().await.unwrap().forget();
                let call = request.extensions().get::<Call>().unwrap();
                call.enter(LayerKind::Usage);
                let actual = 10_000_000 + 7_000_001 * n as i64; // up to 0.0520... of the reserved 0.10 USD
                cost.fetch_add(actual, Ordering::Relaxed);
                call.meter().update(0, |attempt| {
                    attempt.cost = Some(nanos(actual));
                    attempt.advance(UsageState::Reported);
                });
                Ok::<_, Infallible>(Response::new(ScriptedBody::of(["an ", "answer"])))
            }
        }))
    };
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let (service, decided) = (service.clone(), decided.clone());
        calls.spawn(async move {
            let response = service.oneshot(call_costing(usd!(0.10))).await.unwrap();
            if let Some(by) = response.extensions().get::<RefusedBy>() {
                assert_eq!(by.code, "ai_daily_budget_exceeded");
                decided.add_permits(1);
            }
        });
    }
    decided.acquire_many(CALLS).await.unwrap().forget();
    gate.add_permits(CALLS as usize);
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    Race {
        admitted: admitted.load(Ordering::Relaxed),
        cost: cost.load(Ordering::Relaxed),
        balance: layer.balance(Some(&Caller::new("acme").unwrap())).await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_concurrent_requests_with_budget_for_seven_admit_exactly_seven() {
    for _ in 0..10 {
        let race = race(MemoryLedger::new()).await;
        assert_eq!(race.admitted, 7);
        assert_eq!(race.balance.reserved.value(), 0);
        assert_eq!(race.balance.spent.value(), race.cost);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn that_test_catches_a_ledger_that_checks_and_then_commits() {
    assert!(race(CheckThenCommit::default()).await.admitted > 7);
}

/// A ledger as it is often written: it reads the counter, decides, and then adds to it. The first to add is slow enough
/// for eight to have read.
#[derive(Clone)]
struct CheckThenCommit {
    /// Spent and reserved.
    sums: Arc<Mutex<(i64, i64)>>,
    checked: Arc<Semaphore>,
}

impl Default for CheckThenCommit {
    fn default() -> Self {
        Self {
            sums: Arc::default(),
            checked: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Ledger for CheckThenCommit {
    type Reserving = Pin<Box<dyn Future<Output = Reserved> + Send>>;

    fn reserve(
        &self,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        _: Duration,
    ) -> Step<Reserved, Self::Reserving> {
        let (ledger, claim) = (self.clone(), claims[0].clone());
        Step::Later(Box::pin(async move {
            let now = midnight();
            let span = claim.window.at(now);
            let (spent, reserved) = *ledger.sums.lock().unwrap();
            let statement = |reserved| {
                let balance = Balance::new(&claim, spent, reserved, span.clone(), now);
                Statement::new(now, vec![balance], Vec::new())
            };
            if spent + reserved + amount.value() > claim.limit.value() {
                return Reserved::Refused {
                    over: 0,
                    statement: statement(reserved),
                };
            }
            ledger.checked.add_permits(1);
            drop(ledger.checked.acquire_many(8).await.unwrap());
            ledger.sums.lock().unwrap().1 += amount.value();
            let statement = statement(reserved + amount.value());
            let receipt = Receipt::new(id, amount, [Hold::new(claim.clone(), span.clone())]);
            Reserved::Admitted { receipt, statement }
        }))
    }

    fn settle(&self, receipt: Receipt, actual: Amount, _: Basis, _: &Alarm) {
        let mut sums = self.sums.lock().unwrap();
        sums.1 -= receipt.amount().value();
        sums.0 += actual.value();
    }

    fn release(&self, receipt: Receipt) {
        self.sums.lock().unwrap().1 -= receipt.amount().value();
    }

    async fn balance(&self, claim: &Claim) -> Result<Balance, Unavailable> {
        let (spent, reserved) = *self.sums.lock().unwrap();
        Ok(Balance::new(
            claim,
            spent,
            reserved,
            claim.window.at(midnight()),
            midnight(),
        ))
    }

    async fn drain(&self, _: Duration) -> Drained {
        Drained { settled: 0, left: 0 }
    }
}

/// Threads reserve and settle while the clock goes over midnight: what each call cost is in the window that its receipt
/// names, and in no other.
#[tokio::test]
async fn at_midnight_under_load_each_call_is_in_exactly_one_window() {
    let acme = [claim(tenant("acme"), 1_000)];
    for _ in 0..20 {
        let hands = SetClock::at(midnight() - Duration::from_secs(1));
        let ledger = MemoryLedger::new().wall_clock(hands.clock());
        let booked = Mutex::new(HashMap::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (ledger, booked, hands, acme) = (&ledger, &booked, &hands, &acme);
                scope.spawn(move || {
                    for n in 0..400i64 {
                        if thread == 0 && n == 200 {
                            hands.set(midnight());
                        }
                        let Reserved::Admitted { receipt, statement } = reserve(ledger, acme, 2) else {
                            continue;
                        };
                        let balance = &statement.balances[0];
                        assert!(balance.spent.value() + balance.reserved.value() <= 1_000);
                        let day = receipt.holds()[0].span.start;
                        assert!(day <= statement.now && statement.now < day + DAY);
                        let actual = n % 3;
                        ledger.settle(receipt, amount(actual), Basis::Reported, &Alarm::default());
                        *booked.lock().unwrap().entry(day).or_insert(0) += actual;
                    }
                });
            }
        });
        let booked = booked.into_inner().unwrap();
        assert_eq!(booked.len(), 2, "both days were busy");
        for (day, cost) in booked {
            hands.set(day);
            assert_eq!(sums(&ledger, &acme[0]).await, (cost, 0), "{day:?}");
        }
    }
}

#[test]
fn an_alert_fires_exactly_once_however_many_settle_and_refuse_at_once() {
    for round in 0..50 {
        let ledger = MemoryLedger::new();
        let alerts = Alerts::default();
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (ledger, alerts, start) = (ledger.clone(), alerts.clone(), &start);
                scope.spawn(move || {
                    let alarm = alerts.alarm();
                    start.wait();
                    for _ in 0..30 {
                        match reserve(&ledger, &[claim(tenant("a"), 100)], 10) {
                            Reserved::Admitted { receipt, statement } => {
                                statement.alerts.into_iter().for_each(|alert| alarm.raise(alert));
                                ledger.settle(receipt, amount(3), Basis::Reported, &alarm);
                            }
                            Reserved::Refused { statement, .. } => {
                                statement.alerts.into_iter().for_each(|alert| alarm.raise(alert));
                            }
                            Reserved::Unavailable(reason) => panic!("{reason}"),
                        }
                    }
                });
            }
        });
        assert_eq!(alerts.seen().len(), 1, "round {round}");
    }
}

/// The hook has heard of it before the caller reads the refusal.
#[tokio::test]
async fn an_alert_is_never_later_than_the_first_refusal() {
    let alerts = Alerts::default();
    let budget = Budget::daily(usd!(1)).alert_at_percent(80);
    let layer = BudgetLayer::new(MemoryLedger::new(), budget)
        .unwrap()
        .alert_hook(alerts.hook());
    let service = layer.layer(service_fn(|_: Request<ScriptedBody>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
            "an answer",
        ]))))
    }));
    let open = service.clone().oneshot(call_costing(usd!(0.70))).await.unwrap();
    assert_eq!(alerts.seen(), []);
    let refused = service.clone().oneshot(call_costing(usd!(0.40))).await.unwrap();
    assert_eq!(refused.status(), 429);
    let alert = &alerts.seen()[0];
    assert_eq!(
        (alert.percent, alert.cause, &*alert.plan),
        (80, AlertCause::Reserved, "")
    );
    assert_eq!(
        alert.to_string().split(", which").next(),
        Some(
            "tenant:acme is refused before it has spent 80 % of its budget: 0.00 USD spent and 0.70 USD reserved of 1.00 USD"
        )
    );

    drop(open);
    drop(service.clone().oneshot(call_costing(usd!(0.30))).await);
    assert_eq!(alerts.seen().len(), 1, "once per window and threshold");
}

#[tokio::test]
async fn a_settlement_that_crosses_the_threshold_tells_the_hook() {
    let alerts = Alerts::default();
    let layer = BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(1)))
        .unwrap()
        .alert_hook(alerts.hook());
    let service = layer.layer(service_fn(|_: Request<ScriptedBody>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
            "an answer",
        ]))))
    }));
    let open = service.oneshot(call_costing(usd!(0.80))).await.unwrap();
    assert_eq!(alerts.seen(), []);
    drop(open);
    assert_eq!(alerts.seen()[0].cause, AlertCause::Spent);
}

/// The lock is not held while a hook runs.
#[test]
fn a_hook_that_is_slow_keeps_no_other_account_waiting() {
    let ledger = MemoryLedger::new();
    let full = admitted(reserve(&ledger, &[claim(tenant("a"), 100)], 100));
    let (entered, left) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let other = {
        let (ledger, entered, left) = (ledger.clone(), entered.clone(), left.clone());
        std::thread::spawn(move || {
            entered.wait();
            admitted(reserve(&ledger, &[claim(tenant("b"), 100)], 100));
            left.wait();
        })
    };
    let alarm = Alarm::new(move |_| {
        entered.wait();
        left.wait();
    });
    ledger.settle(full, amount(100), Basis::Reported, &alarm);
    other.join().unwrap();
}
