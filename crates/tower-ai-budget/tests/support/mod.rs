//! What the tests share.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)] // each test file uses its part

pub mod model;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};
use testkit::ScriptedBody;
use tower_ai_budget::{
    Account, Alarm, Alert, Amount, Balance, Claim, Drained, Ledger, MemoryLedger, Period, Receipt,
    ReservationId, Reserved, Unavailable, Window,
};
use tower_ai_core::{Basis, Caller, Estimate, Id, NanoUsd, Step};

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);

/// 2025-12-01 00:00 UTC.
pub fn midnight() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_547_200)
}

pub fn nanos(nanos: i64) -> NanoUsd {
    NanoUsd::from_nanos(nanos)
}

pub fn amount(value: i64) -> Amount {
    Amount::usd(nanos(value))
}

// === requests ===

/// A call of tenant `acme` that may cost so much.
pub fn call_costing(cost: NanoUsd) -> Request<ScriptedBody> {
    call_of("acme", "free", cost)
}

pub fn call_of(tenant: &str, plan: &str, cost: NanoUsd) -> Request<ScriptedBody> {
    let caller = Caller::new(tenant).unwrap().plan(plan).unwrap();
    Request::post("/api/ai/summarize")
        .extension(caller)
        .extension(Estimate::given(1_200, 600).unwrap().with_cost(cost))
        .body(ScriptedBody::of(["prompt"]))
        .unwrap()
}

pub async fn json<B>(response: Response<B>) -> serde_json::Value
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

// === claims ===

pub fn tenant(name: &str) -> Account {
    Account::Tenant(Id::new(name).unwrap())
}

/// A claim per day in UTC, in nano-dollars, with an alert at 80 %.
pub fn claim(account: Account, limit: i64) -> Claim {
    let mut claim = Claim::new(account, Window::new(Period::Day, "UTC").unwrap(), amount(limit));
    claim.alert_at = [80].into();
    claim
}

/// Reserves under a fresh id, for a minute.
pub fn reserve(ledger: &MemoryLedger, claims: &[Claim], value: i64) -> Reserved {
    reserve_as(ledger, ReservationId::fresh(), claims, value)
}

pub fn reserve_as(ledger: &MemoryLedger, id: ReservationId, claims: &[Claim], value: i64) -> Reserved {
    match ledger.reserve(id, claims, amount(value), Duration::from_secs(60)) {
        Step::Now(reserved) => reserved,
        Step::Later(_) => unreachable!("memory answers at once"),
    }
}

#[track_caller]
pub fn admitted(reserved: Reserved) -> Receipt {
    match reserved {
        Reserved::Admitted { receipt, .. } => receipt,
        other => panic!("not admitted: {other:?}"),
    }
}

#[track_caller]
pub fn refused(reserved: Reserved) -> (usize, Vec<Alert>) {
    match reserved {
        Reserved::Refused { over, statement } => (over, statement.alerts),
        other => panic!("not refused: {other:?}"),
    }
}

/// What is spent and reserved now.
pub async fn sums(ledger: &impl Ledger, claim: &Claim) -> (i64, i64) {
    let balance = ledger.balance(claim).await.unwrap();
    (balance.spent.value(), balance.reserved.value())
}

/// Collects what an alarm is told.
#[derive(Clone, Default)]
pub struct Alerts(Arc<Mutex<Vec<Alert>>>);

impl Alerts {
    pub fn hook(&self) -> impl Fn(Alert) + Send + Sync + 'static + use<> {
        let alerts = self.0.clone();
        move |alert| alerts.lock().unwrap().push(alert)
    }

    pub fn alarm(&self) -> Alarm {
        Alarm::new(self.hook())
    }

    pub fn seen(&self) -> Vec<Alert> {
        self.0.lock().unwrap().clone()
    }
}

// === ledgers ===

/// What was told to a ledger.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Settled(i64, Basis),
    Released,
}

/// Notes what the ledger inside is told.
#[derive(Clone, Default)]
pub struct Noted<L> {
    pub inner: L,
    told: Arc<Mutex<Vec<Told>>>,
}

impl<L> Noted<L> {
    pub fn new(inner: L) -> Self {
        Self {
            inner,
            told: Arc::default(),
        }
    }

    pub fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }
}

impl<L: Ledger> Ledger for Noted<L> {
    type Reserving = L::Reserving;

    fn reserve(
        &self,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        lease: Duration,
    ) -> Step<Reserved, L::Reserving> {
        self.inner.reserve(id, claims, amount, lease)
    }

    fn settle(&self, receipt: Receipt, actual: Amount, basis: Basis, alarm: &Alarm) {
        self.told
            .lock()
            .unwrap()
            .push(Told::Settled(actual.value(), basis));
        self.inner.settle(receipt, actual, basis, alarm);
    }

    fn release(&self, receipt: Receipt) {
        self.told.lock().unwrap().push(Told::Released);
        self.inner.release(receipt);
    }

    fn balance(&self, claim: &Claim) -> impl Future<Output = Result<Balance, Unavailable>> + Send {
        self.inner.balance(claim)
    }

    fn drain(&self, limit: Duration) -> impl Future<Output = Drained> + Send {
        self.inner.drain(limit)
    }
}

/// A ledger that answers after a round trip, as a remote one does.
#[derive(Clone, Default)]
pub struct Remote(pub MemoryLedger);

impl Ledger for Remote {
    type Reserving = Pin<Box<dyn Future<Output = Reserved> + Send>>;

    fn reserve(
        &self,
        id: ReservationId,
        claims: &[Claim],
        amount: Amount,
        lease: Duration,
    ) -> Step<Reserved, Self::Reserving> {
        let (ledger, claims) = (self.0.clone(), claims.to_vec());
        Step::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            match ledger.reserve(id, &claims, amount, lease) {
                Step::Now(reserved) => reserved,
                Step::Later(later) => later.await,
            }
        }))
    }

    fn settle(&self, receipt: Receipt, actual: Amount, basis: Basis, alarm: &Alarm) {
        self.0.settle(receipt, actual, basis, alarm);
    }

    fn release(&self, receipt: Receipt) {
        self.0.release(receipt);
    }

    fn balance(&self, claim: &Claim) -> impl Future<Output = Result<Balance, Unavailable>> + Send {
        self.0.balance(claim)
    }

    fn drain(&self, limit: Duration) -> impl Future<Output = Drained> + Send {
        self.0.drain(limit)
    }
}

/// A ledger that never says anything.
#[derive(Clone, Default)]
pub struct Away(Arc<AtomicUsize>);

impl Away {
    /// How often it was asked to reserve.
    pub fn asked(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Ledger for Away {
    type Reserving = std::future::Pending<Reserved>;

    fn reserve(
        &self,
        _: ReservationId,
        _: &[Claim],
        _: Amount,
        _: Duration,
    ) -> Step<Reserved, Self::Reserving> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Step::Now(Reserved::Unavailable(Unavailable::new("out for lunch")))
    }

    fn settle(&self, _: Receipt, _: Amount, _: Basis, _: &Alarm) {
        unreachable!("nothing was reserved");
    }

    fn release(&self, _: Receipt) {
        unreachable!("nothing was reserved");
    }

    async fn balance(&self, _: &Claim) -> Result<Balance, Unavailable> {
        Err(Unavailable::new("out for lunch"))
    }

    async fn drain(&self, _: Duration) -> Drained {
        Drained { settled: 0, left: 0 }
    }
}
