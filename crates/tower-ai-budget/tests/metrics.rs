//! What is counted, by a recorder that keeps every counter.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
};
use support::{call_costing, nanos};
use testkit::{ScriptedBody, in_paused_time};
use tower::{Layer, ServiceExt, service_fn};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{Call, LayerKind, TokenCounts, UsageState, usd};

/// The sum of each counter, by its name.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, u64>>>);

impl Sums {
    fn of(&self, name: &str) -> Option<u64> {
        self.0.lock().unwrap().get(name).copied()
    }
}

struct One {
    name: String,
    sums: Sums,
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.sums.0.lock().unwrap().entry(self.name.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {
        unreachable!("the layer only adds");
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(One {
            name: key.name().to_owned(),
            sums: self.clone(),
        }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// What is counted of one call that may cost 0.5 USD and take 1,800 tokens, and cost and took this.
fn counted(budget: Budget, cost: i64, tokens: u64) -> Sums {
    let layer = BudgetLayer::new(MemoryLedger::new(), budget).unwrap();
    let inner = service_fn(move |request: Request<ScriptedBody>| {
        let call = request.extensions().get::<Call>().unwrap();
        call.enter(LayerKind::Usage);
        call.meter().update(0, |attempt| {
            attempt.counts = TokenCounts::new(tokens, 0);
            attempt.cost = Some(nanos(cost));
            attempt.advance(UsageState::Reported);
        });
        ready(Ok::<_, Infallible>(Response::new(ScriptedBody::of([
            "an answer",
        ]))))
    });
    let sums = Sums::default();
    with_local_recorder(&sums, || {
        in_paused_time(async { drop(layer.layer(inner).oneshot(call_costing(usd!(0.5))).await.unwrap()) })
    });
    sums
}

#[test]
fn money_charged_beyond_what_was_reserved_is_counted() {
    let sums = counted(Budget::daily(usd!(1)), 500_000_123, 10);
    assert_eq!(sums.of("ai_budget_nano_usd_total"), Some(500_000_123));
    assert_eq!(sums.of("ai_budget_excess_nano_usd_total"), Some(123));
}

#[test]
fn a_call_that_cost_no_more_than_was_reserved_has_no_excess() {
    let sums = counted(Budget::daily(usd!(1)), 499_999_999, 10);
    assert_eq!(sums.of("ai_budget_nano_usd_total"), Some(499_999_999));
    assert_eq!(sums.of("ai_budget_excess_nano_usd_total"), Some(0));
}

#[test]
fn tokens_are_not_counted_as_money() {
    let sums = counted(Budget::daily_tokens(10_000), 500_000_123, 5_000);
    assert_eq!(sums.of("ai_budget_settled_total"), Some(1));
    assert_eq!(sums.of("ai_budget_nano_usd_total"), Some(0));
    assert_eq!(sums.of("ai_budget_excess_nano_usd_total"), Some(0));
}
