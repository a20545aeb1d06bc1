//! What is logged: the raw material of calibration, alerts, and what an operator has to mend.

#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt::Debug,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{Away, call_costing, midnight, nanos};
use testkit::{ScriptedBody, SetClock, in_paused_time};
use tower::{Layer, ServiceExt, service_fn};
use tower_ai_budget::{Budget, BudgetLayer, Ledger, MemoryLedger};
use tower_ai_core::{AiCall, Call, Estimate, LayerKind, Operation, UsageState, usd};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of every event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Fields>>>);

impl Log {
    fn with(&self, message: &str) -> Vec<Fields> {
        let events = self.0.lock().unwrap();
        events
            .iter()
            .filter(|fields| fields["message"] == message)
            .cloned()
            .collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Read(Fields);
        impl Visit for Read {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                self.0.insert(field.name(), format!("{value:?}"));
            }
            fn record_str(&mut self, field: &Field, value: &str) {
                self.0.insert(field.name(), value.to_owned());
            }
        }
        let mut read = Read(Fields::new());
        event.record(&mut read);
        self.0.lock().unwrap().push(read.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Makes one call, whose provider tells that it cost so much.
async fn call<L: Ledger>(layer: &BudgetLayer<L>, request: Request<ScriptedBody>, actual: i64) {
    let inner = service_fn(move |request: Request<ScriptedBody>| {
        let call = request.extensions().get::<Call>().unwrap();
        call.enter(LayerKind::Usage);
        call.set_ai(AiCall::new(Operation::ChatCompletions, "gpt-5"));
        call.meter().update(0, |attempt| {
            attempt.cost = Some(nanos(actual));
            attempt.advance(UsageState::Reported);
        });
        ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
            "an answer",
        ]))))
    });
    drop(layer.layer(inner).oneshot(request).await.unwrap());
}

fn logged(test: impl Future<Output = ()>) -> Log {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || in_paused_time(test));
    log
}

fn layer() -> BudgetLayer<MemoryLedger> {
    BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(1))).unwrap()
}

#[test]
fn every_settled_call_logs_account_model_estimate_actual_and_basis() {
    let log = logged(call(&layer(), call_costing(usd!(0.5)), 123_456_789));
    let [event] = &log.with("call settled")[..] else {
        panic!("one event for one call")
    };
    assert_eq!(event["account"], "tenant:acme");
    assert_eq!(event["model"], "gpt-5");
    assert_eq!(event["estimate_nano_usd"], "500000000");
    assert_eq!(event["actual_nano_usd"], "123456789");
    assert_eq!(event["basis"], "reported");
}

#[test]
fn what_a_call_cost_beyond_its_reservation_is_told() {
    let log = logged(call(&layer(), call_costing(usd!(0.5)), 500_000_001));
    let message = "a call cost more than was reserved for it; the excess is booked in full";
    assert_eq!(log.with(message)[0]["excess_nano_usd"], "1");
}

#[test]
fn an_alert_is_one_event_without_a_hook_too() {
    let log = logged(async {
        let layer = layer();
        call(&layer, call_costing(usd!(0.8)), 800_000_000).await;
        call(&layer, call_costing(usd!(0.2)), 100_000_000).await;
    });
    let [event] = &log.with("budget alert")[..] else {
        panic!("one event for one alert")
    };
    assert_eq!((&*event["account"], &*event["percent"]), ("tenant:acme", "80"));
    assert_eq!((&*event["spent"], &*event["limit"]), ("0.80 USD", "1.00 USD"));
}

#[test]
fn a_misconfiguration_is_told_once() {
    let log = logged(async {
        let layer = layer();
        for _ in 0..5 {
            let mut request = call_costing(usd!(0.1));
            request.extensions_mut().remove::<Estimate>();
            call(&layer, request, 0).await;
        }
    });
    assert_eq!(
        log.with("calls are refused: the budget layer is misconfigured")
            .len(),
        1
    );
    assert_eq!(log.with("call refused").len(), 5);
}

#[test]
fn a_ledger_that_is_away_is_told_with_its_reason_and_the_rule() {
    let layer = BudgetLayer::new(Away::default(), Budget::daily(usd!(1))).unwrap();
    let log = logged(call(&layer, call_costing(usd!(0.1)), 0));
    let event = &log.with("no answer from the ledger")[0];
    assert_eq!(event["reason"], "the ledger is unavailable: out for lunch");
    assert_eq!(event["rule"], "closed");
}

#[test]
fn a_settlement_after_the_lease_is_told_as_late_even_if_nobody_looked_in_between() {
    let log = logged(async {
        let hands = SetClock::at(midnight());
        let ledger = MemoryLedger::new().wall_clock(hands.clock());
        let layer = BudgetLayer::new(ledger, Budget::daily(usd!(1))).unwrap();
        for late in [false, true] {
            let hands = hands.clone();
            let inner = service_fn(move |_: Request<ScriptedBody>| {
                if late {
                    hands.advance(Duration::from_secs(601));
                }
                ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
                    "an answer",
                ]))))
            });
            drop(layer.layer(inner).oneshot(call_costing(usd!(0.1))).await.unwrap());
        }
    });
    assert_eq!(log.with("the lease of a reservation is over").len(), 1);
    assert_eq!(log.with("settled late, after its lease was over").len(), 1);
}
