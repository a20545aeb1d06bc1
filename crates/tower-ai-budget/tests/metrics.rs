//! What is counted.

#![cfg(feature = "metrics")]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use std::{convert::Infallible, future::ready};
use support::{call_costing, nanos};
use testkit::{MetricNotes, ScriptedBody, in_paused_time};
use tower::{Layer, ServiceExt, service_fn};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{Call, LayerKind, TokenCounts, UsageState, usd};

/// What is counted of one call that may cost 0.5 USD and take 1,800 tokens, and cost and took this.
fn counted(budget: Budget, cost: i64, tokens: u64) -> MetricNotes {
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
    MetricNotes::during(|| {
        in_paused_time(async { drop(layer.layer(inner).oneshot(call_costing(usd!(0.5))).await.unwrap()) })
    })
}

#[test]
fn money_charged_beyond_what_was_reserved_is_counted() {
    let sums = counted(Budget::daily(usd!(1)), 500_000_123, 10);
    assert_eq!(sums.sum("ai_budget_nano_usd_total"), Some(500_000_123.0));
    assert_eq!(sums.sum("ai_budget_excess_nano_usd_total"), Some(123.0));
}

#[test]
fn a_call_that_cost_no_more_than_was_reserved_has_no_excess() {
    let sums = counted(Budget::daily(usd!(1)), 499_999_999, 10);
    assert_eq!(sums.sum("ai_budget_nano_usd_total"), Some(499_999_999.0));
    assert_eq!(sums.sum("ai_budget_excess_nano_usd_total"), Some(0.0));
}

#[test]
fn tokens_are_not_counted_as_money() {
    let sums = counted(Budget::daily_tokens(10_000), 500_000_123, 5_000);
    assert_eq!(sums.sum("ai_budget_settled_total"), Some(1.0));
    assert_eq!(sums.sum("ai_budget_nano_usd_total"), Some(0.0));
    assert_eq!(sums.sum("ai_budget_excess_nano_usd_total"), Some(0.0));
}
