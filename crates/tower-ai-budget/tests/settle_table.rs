//! What is settled when: every row of the table, through every end of a body.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use std::{
    future::{Ready, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use support::{Noted, Remote, Told, call_costing, nanos};
use testkit::{ALL_ENDS, End, ScriptedBody};
use tokio::time::{Duration, sleep, timeout};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ai_budget::{Budget, BudgetLayer, MaybeBilled, MemoryLedger};
use tower_ai_core::{
    Basis, BodyEnd, Call, Estimate, LayerKind, Refusal, RefusalFormat, RefusalKind, TapBody, TokenCounts,
    UsageState, usd,
};

/// What is reserved for each call: 100 tokens in, and 50 out of which few come.
const RESERVED: i64 = 1_000;

/// A token in costs 1 nano-dollar, one out 10.
fn attempt(call: &Call, n: u32, state: UsageState, counts: (u64, u64), forwarded: u64) {
    call.meter().update(n, |attempt| {
        attempt.counts = TokenCounts::new(counts.0, counts.1);
        attempt.forwarded = forwarded;
        attempt.tariff = Some(Arc::new(|counts: &TokenCounts| {
            Some(nanos((counts.input + 10 * counts.output) as i64))
        }));
        attempt.advance(state);
    });
}

fn request(call: &Call) -> Request<ScriptedBody> {
    let mut request = call_costing(nanos(RESERVED));
    let estimate = Estimate::given(100, 50).unwrap().with_cost(nanos(RESERVED));
    request.extensions_mut().insert(estimate);
    request.extensions_mut().insert(call.clone());
    request
}

fn layer(ledger: &Noted<MemoryLedger>) -> BudgetLayer<Noted<MemoryLedger>> {
    BudgetLayer::new(ledger.clone(), Budget::daily(usd!(2))).unwrap()
}

struct Row {
    name: &'static str,
    /// The layers inside, which know what was sent and used.
    inside: &'static [LayerKind],
    /// What they know when the head comes.
    at_head: fn(&Call),
    status: u16,
    refused: bool,
    /// What they learn from the body.
    in_body: fn(&Call),
    settled: Told,
}

const ROWS: &[Row] = &[
    Row {
        name: "a: refused inside, and nothing was sent",
        inside: &[LayerKind::Failover, LayerKind::Usage],
        at_head: |_| {},
        status: 503,
        refused: true,
        in_body: |_| {},
        settled: Told::Released,
    },
    Row {
        name: "a: refused inside in the shape of gRPC, which is a 200",
        inside: &[],
        at_head: |_| {},
        status: 200,
        refused: true,
        in_body: |_| {},
        settled: Told::Released,
    },
    Row {
        name: "b: an error is not billed",
        inside: &[LayerKind::Usage],
        at_head: |call| attempt(call, 0, UsageState::NotBilled, (0, 0), 0),
        status: 500,
        refused: false,
        in_body: |_| {},
        settled: Told::Released,
    },
    Row {
        name: "b: an error without a layer that knows",
        inside: &[],
        at_head: |_| {},
        status: 404,
        refused: false,
        in_body: |_| {},
        settled: Told::Released,
    },
    Row {
        name: "b: all attempts failed, and one is billed",
        inside: &[LayerKind::Failover, LayerKind::Usage],
        at_head: |call| {
            attempt(call, 1, UsageState::Reported, (7, 1), 0);
            attempt(call, 2, UsageState::NotBilled, (0, 0), 0);
        },
        status: 503,
        refused: true,
        in_body: |_| {},
        settled: Told::Settled(17, Basis::Reported),
    },
    Row {
        name: "c: the usage was told",
        inside: &[LayerKind::Usage],
        at_head: |call| attempt(call, 0, UsageState::Answered, (0, 0), 0),
        status: 200,
        refused: false,
        in_body: |call| attempt(call, 0, UsageState::Reported, (90, 20), 0),
        settled: Told::Settled(290, Basis::Reported),
    },
    Row {
        name: "c: and an attempt before is billed too",
        inside: &[LayerKind::Failover, LayerKind::Usage],
        at_head: |call| {
            attempt(call, 1, UsageState::Reported, (7, 0), 0);
            attempt(call, 2, UsageState::Answered, (0, 0), 0);
            call.meter().served(2);
        },
        status: 200,
        refused: false,
        in_body: |call| attempt(call, 2, UsageState::Reported, (90, 20), 3),
        settled: Told::Settled(297, Basis::Reported),
    },
    Row {
        name: "c: the usage was told, and has no price",
        inside: &[LayerKind::Usage],
        at_head: |_| {},
        status: 200,
        refused: false,
        in_body: |call| {
            call.meter()
                .update(0, |attempt| attempt.advance(UsageState::Reported))
        },
        settled: Told::Settled(RESERVED, Basis::Reported),
    },
    Row {
        name: "c: it cost more than was reserved",
        inside: &[LayerKind::Usage],
        at_head: |_| {},
        status: 200,
        refused: false,
        in_body: |call| attempt(call, 0, UsageState::Reported, (100, 500), 0),
        settled: Told::Settled(5_100, Basis::Reported),
    },
    Row {
        name: "d: no usage was told: full input, and the output that was passed on",
        inside: &[LayerKind::Usage],
        at_head: |call| attempt(call, 0, UsageState::Answered, (80, 1), 0),
        status: 200,
        refused: false,
        in_body: |call| attempt(call, 0, UsageState::Answered, (80, 1), 12),
        settled: Told::Settled(220, Basis::Estimated),
    },
    Row {
        name: "f: nobody can know: what was reserved",
        inside: &[],
        at_head: |_| {},
        status: 200,
        refused: false,
        in_body: |_| {},
        settled: Told::Settled(RESERVED, Basis::Estimated),
    },
];

fn head(row: &Row, end: End) -> Response<ScriptedBody> {
    let mut response = Response::new(end.body(["one ", "two ", "three"]));
    *response.status_mut() = row.status.try_into().unwrap();
    if row.refused {
        let refusal = Refusal::new(
            LayerKind::Failover,
            RefusalKind::Unavailable,
            "all_upstreams_exhausted",
            "",
        );
        let by = refusal.into_response::<ScriptedBody>(RefusalFormat::Problem);
        response.extensions_mut().extend(by.extensions().clone());
    }
    response
}

#[tokio::test(start_paused = true)]
async fn every_row_with_a_head_is_settled_once_at_every_end_of_the_body() {
    for row in ROWS {
        for end in ALL_ENDS {
            let (ledger, call) = (Noted::<MemoryLedger>::default(), Call::default());
            let inner = service_fn(|request: Request<ScriptedBody>| {
                let call = request.extensions().get::<Call>().unwrap();
                row.inside.iter().for_each(|layer| call.enter(*layer));
                (row.at_head)(call);
                ready(Ok::<_, std::io::Error>(head(row, end)))
            });
            let response = layer(&ledger).layer(inner).oneshot(request(&call)).await.unwrap();
            assert_eq!(ledger.told(), [], "{}: settled at the head", row.name);
            (row.in_body)(&call);
            end.meet(response.into_body()).await;
            assert_eq!(
                ledger.told(),
                std::slice::from_ref(&row.settled),
                "{}, end {end:?}",
                row.name
            );
            assert_eq!(ledger.inner.open_reservations(), 0, "{}, end {end:?}", row.name);
        }
    }
}

/// What is settled when there is no head: the inner service fails, or the call is dropped while it runs.
async fn without_a_head(
    inside: &'static [LayerKind],
    sent: fn(&Call),
    is_dropped: bool,
    rule: MaybeBilled,
) -> Vec<Told> {
    let (ledger, call) = (Noted::<MemoryLedger>::default(), Call::default());
    let inner = service_fn(move |request: Request<ScriptedBody>| {
        let call = request.extensions().get::<Call>().unwrap();
        inside.iter().for_each(|layer| call.enter(*layer));
        sent(call);
        async move {
            if is_dropped {
                sleep(Duration::from_secs(3_600)).await;
            }
            Err::<Response<ScriptedBody>, _>(std::io::Error::other("cut"))
        }
    });
    let service = layer(&ledger).on_maybe_billed(rule).layer(inner);
    let outcome = timeout(Duration::from_secs(1), service.oneshot(request(&call))).await;
    assert_eq!(outcome.is_err(), is_dropped);
    assert_eq!(ledger.inner.open_reservations(), 0);
    ledger.told()
}

const WATCHED: &[LayerKind] = &[LayerKind::Failover, LayerKind::Usage];

#[tokio::test(start_paused = true)]
async fn row_a_what_was_never_sent_is_released() {
    for is_dropped in [false, true] {
        let told = without_a_head(WATCHED, |_| {}, is_dropped, MaybeBilled::Charge).await;
        assert_eq!(told, [Told::Released], "dropped: {is_dropped}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_b_a_failed_call_is_not_billed() {
    let sent = |call: &Call| attempt(call, 1, UsageState::MaybeBilled, (0, 0), 0);
    let told = without_a_head(WATCHED, sent, false, MaybeBilled::Charge).await;
    assert_eq!(told, [Told::Released]);
    assert_eq!(
        without_a_head(&[], |_| {}, false, MaybeBilled::Charge).await,
        [Told::Released]
    );
}

#[tokio::test(start_paused = true)]
async fn row_e_a_call_dropped_after_it_was_sent_costs_its_input() {
    let sent = |call: &Call| attempt(call, 1, UsageState::Sent, (0, 0), 0);
    let told = without_a_head(WATCHED, sent, true, MaybeBilled::Charge).await;
    assert_eq!(told, [Told::Settled(100, Basis::MaybeBilled)]);
    // Nobody inside knows a price, nor whether it was sent.
    let told = without_a_head(&[], |_| {}, true, MaybeBilled::Charge).await;
    assert_eq!(told, [Told::Settled(RESERVED, Basis::MaybeBilled)]);
}

#[tokio::test(start_paused = true)]
async fn row_e_by_choice_it_costs_only_what_is_known_to_be_billed() {
    let sent = |call: &Call| attempt(call, 1, UsageState::Sent, (0, 0), 0);
    assert_eq!(
        without_a_head(WATCHED, sent, true, MaybeBilled::Release).await,
        [Told::Released]
    );
    assert_eq!(
        without_a_head(&[], |_| {}, true, MaybeBilled::Release).await,
        [Told::Released]
    );
    let one_is_billed = |call: &Call| {
        attempt(call, 1, UsageState::Reported, (7, 1), 0);
        attempt(call, 2, UsageState::Sent, (0, 0), 0);
    };
    let told = without_a_head(WATCHED, one_is_billed, true, MaybeBilled::Release).await;
    assert_eq!(told, [Told::Settled(17, Basis::Reported)]);
}

#[tokio::test(start_paused = true)]
async fn what_the_inner_body_tells_when_it_is_dropped_comes_before_the_settlement() {
    for end in ALL_ENDS {
        let (ledger, call) = (Noted::<MemoryLedger>::default(), Call::default());
        let inner = service_fn(|request: Request<ScriptedBody>| {
            let call = request.extensions().get::<Call>().unwrap().clone();
            call.enter(LayerKind::Usage);
            let body = TapBody::new(end.body(["one ", "two"]), move |_: BodyEnd| {
                attempt(&call, 0, UsageState::Reported, (90, 20), 0);
            });
            ready(Ok::<_, std::io::Error>(Response::new(body)))
        });
        let response = layer(&ledger).layer(inner).oneshot(request(&call)).await.unwrap();
        end.meet(response.into_body()).await;
        assert_eq!(ledger.told(), [Told::Settled(290, Basis::Reported)], "{end:?}");
    }
}

/// Fails, or waits forever; and has something to tell when it is dropped.
struct Telling {
    call: Call,
    fails: bool,
}

impl Future for Telling {
    type Output = Result<Response<ScriptedBody>, std::io::Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.fails {
            true => Poll::Ready(Err(std::io::Error::other("cut"))),
            false => Poll::Pending,
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        attempt(&self.call, 0, UsageState::Answered, (0, 0), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_inner_future_tells_when_it_is_dropped_comes_before_the_settlement() {
    for fails in [false, true] {
        let (ledger, call) = (Noted::<MemoryLedger>::default(), Call::default());
        let inner = service_fn(|request: Request<ScriptedBody>| {
            let call = request.extensions().get::<Call>().unwrap().clone();
            call.enter(LayerKind::Usage);
            Telling { call, fails }
        });
        let service = layer(&ledger).layer(inner);
        let _ = timeout(Duration::from_secs(1), service.oneshot(request(&call))).await;
        assert_eq!(
            ledger.told(),
            [Told::Settled(130, Basis::Estimated)],
            "fails: {fails}"
        );
    }
}

#[test]
fn a_panic_in_the_inner_service_settles() {
    let (ledger, call) = (Noted::<MemoryLedger>::default(), Call::default());
    let inner = service_fn(
        |request: Request<ScriptedBody>| -> Ready<Result<Response<ScriptedBody>, std::io::Error>> {
            request
                .extensions()
                .get::<Call>()
                .unwrap()
                .enter(LayerKind::Usage);
            panic!("a bug");
        },
    );
    let mut service = layer(&ledger).layer(inner);
    let called = catch_unwind(AssertUnwindSafe(|| drop(service.call(request(&call)))));
    assert!(called.is_err());
    assert_eq!(ledger.told(), [Told::Released]);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_a_remote_ledger_decides_holds_nothing_and_is_not_made() {
    let books = MemoryLedger::new();
    let inner = service_fn(
        |_: Request<ScriptedBody>| -> Ready<Result<Response<ScriptedBody>, std::io::Error>> {
            panic!("it was not admitted yet")
        },
    );
    let service = BudgetLayer::new(Remote(books.clone()), Budget::daily(usd!(2)))
        .unwrap()
        .layer(inner);
    let call = service.oneshot(request(&Call::default()));
    timeout(Duration::from_millis(1), call).await.unwrap_err();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(books.open_reservations(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_negative_price_earns_nothing() {
    let (ledger, call) = (Noted::<MemoryLedger>::default(), Call::default());
    let inner = service_fn(|request: Request<ScriptedBody>| {
        let call = request.extensions().get::<Call>().unwrap();
        call.enter(LayerKind::Usage);
        call.meter().update(0, |attempt| {
            attempt.cost = Some(nanos(-5));
            attempt.advance(UsageState::Reported);
        });
        ready(Ok::<_, std::io::Error>(Response::new(ScriptedBody::new())))
    });
    drop(layer(&ledger).layer(inner).oneshot(request(&call)).await.unwrap());
    assert_eq!(ledger.told(), [Told::Settled(0, Basis::Reported)]);
}
