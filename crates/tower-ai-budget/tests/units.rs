//! Budgets that are counted in requests or tokens instead of money.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use std::{convert::Infallible, future::ready};
use support::{Alerts, Noted, Told, call_costing, json};
use testkit::ScriptedBody;
use tower::{Layer, ServiceExt, service_fn};
use tower_ai_budget::{Amount, Budget, BudgetLayer, MaybeBilled, MemoryLedger, ResponseBody, Unit};
use tower_ai_core::{
    AiCall, Basis, BudgetState, Call, Caller, Estimate, LayerKind, Operation, TokenCounts, UsageState, usd,
};

type Books = Noted<MemoryLedger>;

fn layer(budget: Budget) -> (Books, BudgetLayer<Books>) {
    let books = Books::default();
    let layer = BudgetLayer::new(books.clone(), budget).unwrap();
    (books, layer)
}

/// A call of `acme` without an estimate.
fn plain() -> Request<ScriptedBody> {
    let mut request = call_costing(usd!(0));
    request.extensions_mut().remove::<Estimate>();
    request
}

/// A call of `acme` with an estimate of no price.
fn estimated(input: u64, output: u64) -> Request<ScriptedBody> {
    let mut request = plain();
    let estimate = Estimate::given(input, output).unwrap();
    request.extensions_mut().insert(estimate);
    request
}

/// Makes a call that is answered with `status`, of which a layer inside knows what `meter` notes.
async fn answered(
    layer: &BudgetLayer<Books>,
    request: Request<ScriptedBody>,
    status: u16,
    meter: impl Fn(&Call) + Clone,
) -> Response<ResponseBody<ScriptedBody, Books>> {
    let inner = service_fn(move |request: Request<ScriptedBody>| {
        meter(request.extensions().get::<Call>().unwrap());
        let mut response = Response::new(ScriptedBody::of(["an answer"]));
        *response.status_mut() = status.try_into().unwrap();
        ready(Ok::<_, Infallible>(response))
    });
    layer.layer(inner).oneshot(request).await.unwrap()
}

/// Makes a call of which nobody inside knows anything.
async fn call(
    layer: &BudgetLayer<Books>,
    request: Request<ScriptedBody>,
) -> Response<ResponseBody<ScriptedBody, Books>> {
    answered(layer, request, 200, |_| {}).await
}

/// Usage is inside, and the attempt came to this.
fn attempt(state: UsageState, input: u64, output: u64, forwarded: u64) -> impl Fn(&Call) + Clone {
    move |call| {
        call.enter(LayerKind::Usage);
        call.meter().update(0, |attempt| {
            attempt.counts = TokenCounts::new(input, output);
            attempt.forwarded = forwarded;
            attempt.advance(state);
        });
    }
}

/// What a budget is told to settle for a call of 100 tokens in and 50 out at most.
async fn settled(budget: Budget, status: u16, meter: impl Fn(&Call) + Clone) -> Vec<Told> {
    let (books, layer) = layer(budget);
    drop(answered(&layer, estimated(100, 50), status, meter).await);
    assert_eq!(books.inner.open_reservations(), 0);
    books.told()
}

async fn sums(layer: &BudgetLayer<Books>) -> (Amount, Amount) {
    let balance = layer.balance(Some(&Caller::new("acme").unwrap())).await.unwrap();
    (balance.spent, balance.reserved)
}

fn requests(n: i64) -> Amount {
    Amount::new(n, Unit::Requests)
}

fn tokens(n: i64) -> Amount {
    Amount::new(n, Unit::Tokens)
}

// === what is reserved ===

#[tokio::test]
async fn each_request_counts_one_whatever_its_size() {
    let (_, layer) = layer(Budget::daily_requests(10));
    let _open = (
        call(&layer, plain()).await,
        call(&layer, estimated(9_000, 9_000)).await,
    );
    assert_eq!(sums(&layer).await, (requests(0), requests(2)));
}

#[tokio::test]
async fn exactly_so_many_requests_are_admitted() {
    let (_, layer) = layer(Budget::daily_requests(3));
    for _ in 0..3 {
        assert_eq!(call(&layer, plain()).await.status(), 200);
    }
    assert_eq!(call(&layer, plain()).await.status(), 429);
}

#[tokio::test]
async fn the_estimated_input_and_output_are_reserved_in_tokens() {
    let (_, layer) = layer(Budget::daily_tokens(2_000_000));
    let _open = call(&layer, estimated(700, 300)).await;
    assert_eq!(sums(&layer).await, (tokens(0), tokens(1_000)));
}

#[tokio::test]
async fn without_an_estimate_1200_tokens_in_and_600_out_are_reserved() {
    let (_, layer) = layer(Budget::daily_tokens(2_000_000));
    let _open = call(&layer, plain()).await;
    assert_eq!(sums(&layer).await, (tokens(0), tokens(1_800)));
}

#[tokio::test]
async fn a_call_that_brings_the_tokens_to_exactly_the_limit_is_admitted() {
    let (_, layer) = layer(Budget::daily_tokens(1_000));
    let _open = call(&layer, estimated(700, 299)).await;
    assert_eq!(call(&layer, estimated(1, 1)).await.status(), 429);
    assert_eq!(call(&layer, estimated(1, 0)).await.status(), 200);
}

#[tokio::test]
async fn a_model_without_a_price_is_admitted_where_money_is_not_counted() {
    for budget in [Budget::daily_requests(10), Budget::daily_tokens(10_000)] {
        let (_, layer) = layer(budget);
        let mut request = estimated(100, 50);
        let known = Call::default();
        known.set_ai(AiCall::new(Operation::ChatCompletions, "our-own"));
        request.extensions_mut().insert(known);
        assert_eq!(call(&layer, request).await.status(), 200);
    }
}

#[tokio::test]
async fn the_cap_of_one_call_holds_where_its_cost_is_known() {
    for budget in [Budget::daily_requests(10), Budget::daily_tokens(10_000)] {
        let (_, layer) = layer(budget);
        let response = call(&layer, call_costing(usd!(0.800_000_001))).await;
        assert_eq!(response.status(), 413);
        assert_eq!(json(response).await["error"], "prompt_too_expensive");
        assert_eq!(call(&layer, call_costing(usd!(0.80))).await.status(), 200);
        let layer = layer.fixed_cost(usd!(0.90));
        assert_eq!(call(&layer, plain()).await.status(), 413);
    }
}

// === what is settled ===

#[tokio::test]
async fn a_request_that_is_billed_settles_as_one() {
    let budget = || Budget::daily_requests(10);
    let reported = attempt(UsageState::Reported, 90, 20, 0);
    assert_eq!(
        settled(budget(), 200, reported).await,
        [Told::Settled(1, Basis::Reported)]
    );
    let cut = attempt(UsageState::Answered, 0, 0, 12);
    assert_eq!(
        settled(budget(), 200, cut).await,
        [Told::Settled(1, Basis::Estimated)]
    );
    assert_eq!(
        settled(budget(), 200, |_| {}).await,
        [Told::Settled(1, Basis::Estimated)]
    );
}

#[tokio::test]
async fn what_is_not_billed_is_released_in_every_unit() {
    for budget in [Budget::daily_requests(10), Budget::daily_tokens(10_000)] {
        let not_billed = attempt(UsageState::NotBilled, 0, 0, 0);
        assert_eq!(settled(budget, 500, not_billed).await, [Told::Released]);
    }
}

#[tokio::test]
async fn the_tokens_that_were_reported_are_settled_even_without_a_price() {
    let reported = attempt(UsageState::Reported, 90, 20, 0);
    assert_eq!(
        settled(Budget::daily_tokens(10_000), 200, reported).await,
        [Told::Settled(110, Basis::Reported)]
    );
}

#[tokio::test]
async fn an_answer_that_was_cut_settles_its_full_input_and_the_output_passed_on() {
    let cut = attempt(UsageState::Answered, 80, 1, 12);
    assert_eq!(
        settled(Budget::daily_tokens(10_000), 200, cut).await,
        [Told::Settled(112, Basis::Estimated)]
    );
}

#[tokio::test]
async fn where_nobody_can_know_the_reserved_tokens_are_settled() {
    assert_eq!(
        settled(Budget::daily_tokens(10_000), 200, |_| {}).await,
        [Told::Settled(150, Basis::Estimated)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_settles_as_one_request_or_as_its_input_or_not_at_all_by_choice() {
    for (budget, rule, told) in [
        (
            Budget::daily_requests(10),
            MaybeBilled::Charge,
            Told::Settled(1, Basis::MaybeBilled),
        ),
        (
            Budget::daily_tokens(10_000),
            MaybeBilled::Charge,
            Told::Settled(100, Basis::MaybeBilled),
        ),
        (Budget::daily_requests(10), MaybeBilled::Release, Told::Released),
        (Budget::daily_tokens(10_000), MaybeBilled::Release, Told::Released),
    ] {
        let (books, layer) = layer(budget);
        let sent = attempt(UsageState::Sent, 0, 0, 0);
        let inner = service_fn(move |request: Request<ScriptedBody>| {
            sent(request.extensions().get::<Call>().unwrap());
            std::future::pending::<Result<Response<ScriptedBody>, Infallible>>()
        });
        let call = layer
            .on_maybe_billed(rule)
            .layer(inner)
            .oneshot(estimated(100, 50));
        tokio::time::timeout(std::time::Duration::from_secs(1), call)
            .await
            .unwrap_err();
        assert_eq!(books.told(), [told]);
    }
}

#[tokio::test]
async fn more_tokens_than_were_reserved_are_booked_in_full() {
    let (_, layer) = layer(Budget::daily_tokens(200));
    let reported = attempt(UsageState::Reported, 100, 500, 0);
    drop(answered(&layer, estimated(100, 50), 200, reported).await);
    assert_eq!(sums(&layer).await, (tokens(600), tokens(0)));
    assert_eq!(call(&layer, estimated(1, 0)).await.status(), 429);
}

// === what callers and operators see ===

#[tokio::test]
async fn a_refusal_tells_what_is_used_and_the_limit_in_requests() {
    let (_, layer) = layer(Budget::daily_requests(2));
    drop(call(&layer, plain()).await);
    let _open = call(&layer, plain()).await;
    let response = call(&layer, plain()).await;
    assert_eq!(response.status(), 429);
    let body = json(response).await;
    assert_eq!(body["error"], "ai_daily_budget_exceeded");
    assert_eq!((&body["used"], &body["limit"]), (&2.into(), &2.into()));
    assert_eq!(
        (&body["used_cents"], &body["limit_cents"]),
        (&().into(), &().into())
    );
    let told = body["detail"].as_str().unwrap();
    assert!(
        told.starts_with(
            "the daily budget of 2 requests has no room for a call that may cost 1 request: 1 request spent and 1 \
             request reserved by calls under way; it resets at "
        ),
        "{told}"
    );
}

#[tokio::test]
async fn a_refusal_tells_what_is_used_and_the_limit_in_tokens() {
    let (_, layer) = layer(Budget::daily_tokens(2_000));
    let _open = call(&layer, estimated(1_000, 500)).await;
    let body = json(call(&layer, estimated(1_000, 500)).await).await;
    assert_eq!((&body["used"], &body["limit"]), (&1_500.into(), &2_000.into()));
}

#[tokio::test]
async fn longer_windows_have_their_own_codes_in_every_unit() {
    for (budget, code) in [
        (Budget::weekly_requests(1), "ai_weekly_budget_exceeded"),
        (Budget::monthly_requests(1), "ai_monthly_budget_exceeded"),
        (Budget::weekly_tokens(150), "ai_weekly_budget_exceeded"),
        (Budget::monthly_tokens(150), "ai_monthly_budget_exceeded"),
    ] {
        let (_, layer) = layer(budget);
        drop(call(&layer, estimated(100, 50)).await);
        assert_eq!(json(call(&layer, estimated(100, 50)).await).await["error"], code);
    }
}

#[tokio::test]
async fn the_alert_counts_in_the_unit_of_the_budget() {
    let (_, layer) = layer(Budget::daily_requests(5));
    let alerts = Alerts::default();
    let layer = layer.alert_hook(alerts.hook());
    for fired in [0, 0, 0, 1, 1] {
        drop(call(&layer, plain()).await);
        assert_eq!(alerts.seen().len(), fired);
    }
    assert_eq!(
        (alerts.seen()[0].spent, alerts.seen()[0].limit),
        (requests(4), requests(5))
    );
}

#[tokio::test]
async fn budget_state_is_in_dollars_and_not_put_for_other_units() {
    let (_, layer) = layer(Budget::daily_requests(1));
    for status in [200, 429] {
        let response = call(&layer, plain()).await;
        assert_eq!(response.status(), status);
        assert_eq!(response.extensions().get::<BudgetState>(), None);
    }
}

#[test]
fn a_budget_of_no_requests_or_tokens_is_an_error() {
    for budget in [Budget::daily_requests(0), Budget::monthly_tokens(0)] {
        let error = BudgetLayer::new(MemoryLedger::new(), budget).unwrap_err();
        assert_eq!(error.to_string(), "limit: a budget has to be above 0");
    }
}

#[tokio::test]
async fn a_limit_beyond_what_can_be_counted_is_the_most_that_can() {
    let (_, layer) = layer(Budget::daily_tokens(u64::MAX));
    let balance = layer.balance(None).await.unwrap();
    assert_eq!(balance.limit, tokens(i64::MAX));
}
