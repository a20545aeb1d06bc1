//! Who is admitted, at what price, and on whose account.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use std::{
    convert::Infallible,
    future::{Ready, ready},
    time::{Duration, SystemTime},
};
use support::{Away, DAY, HOUR, Remote, call_costing, call_of, midnight, nanos};
use testkit::{Answer, ProbeService, ScriptedBody, SetClock, in_paused_time};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ai_budget::{
    Budget, BudgetLayer, BudgetService, ExhaustedStatus, MemoryLedger, MissingCaller, Outage, ResponseBody,
    UnknownPrice,
};
use tower_ai_core::{
    AiCall, BudgetState, Call, Caller, Deadline, Estimate, EstimateMode, LayerKind, NanoUsd, Operation,
    Plans, RefusedBy, TokenCounts, usd,
};

type Answered = Response<ResponseBody<ScriptedBody, MemoryLedger>>;

fn ok<B>(_: Request<B>) -> Ready<Result<Response<ScriptedBody>, Infallible>> {
    ready(Ok(Response::new(ScriptedBody::of(["an ", "answer"]))))
}

fn layer(budget: impl Into<Plans<Budget>>) -> BudgetLayer<MemoryLedger> {
    BudgetLayer::new(MemoryLedger::new(), budget).unwrap()
}

/// Makes a call whose answer is still being read: its reservation is open.
async fn call(layer: &BudgetLayer<MemoryLedger>, request: Request<ScriptedBody>) -> Answered {
    layer.layer(service_fn(ok)).oneshot(request).await.unwrap()
}

fn code<B>(response: &Response<B>) -> (u16, &'static str) {
    let by = response.extensions().get::<RefusedBy>();
    (response.status().as_u16(), by.map_or("", |by| by.code))
}

const OK: (u16, &str) = (200, "");
const EXCEEDED: (u16, &str) = (429, "ai_daily_budget_exceeded");
const TOO_EXPENSIVE: (u16, &str) = (413, "prompt_too_expensive");

// === the limits ===

#[tokio::test]
async fn a_call_that_brings_the_total_to_exactly_the_limit_is_admitted() {
    let layer = layer(Budget::daily(usd!(2)));
    let first = call(&layer, call_costing(usd!(0.80))).await;
    let second = call(&layer, call_costing(usd!(0.80))).await;
    assert_eq!(
        code(&call(&layer, call_costing(usd!(0.400_000_001))).await),
        EXCEEDED
    );
    let third = call(&layer, call_costing(usd!(0.40))).await;
    assert_eq!([code(&first), code(&second), code(&third)], [OK; 3]);
    assert_eq!(code(&call(&layer, call_costing(nanos(1))).await), EXCEEDED);
}

#[tokio::test]
async fn exactly_the_cap_of_one_call_passes_and_above_it_nothing_is_reserved() {
    let layer = layer(Budget::daily(usd!(2)));
    assert_eq!(
        code(&call(&layer, call_costing(usd!(0.800_000_001))).await),
        TOO_EXPENSIVE
    );
    let caller = Caller::new("acme").unwrap();
    let balance = layer.balance(Some(&caller)).await.unwrap();
    assert_eq!((balance.spent.value(), balance.reserved.value()), (0, 0));
    assert_eq!(code(&call(&layer, call_costing(usd!(0.80))).await), OK);
}

#[tokio::test]
async fn the_cap_is_configured_or_off() {
    let cents = layer(Budget::daily(usd!(2)).request_cap(usd!(0.05)));
    assert_eq!(code(&call(&cents, call_costing(usd!(0.06))).await), TOO_EXPENSIVE);
    let off = layer(Budget::daily(usd!(2)).no_request_cap());
    assert_eq!(code(&call(&off, call_costing(usd!(2))).await), OK);
}

#[tokio::test]
async fn a_call_dearer_than_the_whole_budget_is_over_budget_and_told_that_waiting_will_not_help() {
    let layer = layer(Budget::daily(usd!(0.50)));
    let response = call(&layer, call_costing(usd!(0.60))).await;
    assert_eq!(code(&response), EXCEEDED);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("more than the whole budget"));
}

#[tokio::test]
async fn a_call_that_costs_nothing_passes_when_all_is_used_up() {
    let layer = layer(Budget::daily(usd!(0.80)));
    drop(call(&layer, call_costing(usd!(0.80))).await);
    assert_eq!(code(&call(&layer, call_costing(nanos(1))).await), EXCEEDED);
    assert_eq!(code(&call(&layer, call_costing(NanoUsd::ZERO)).await), OK);
}

#[tokio::test]
async fn a_refused_call_is_not_made_and_costs_nothing() {
    let probe = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["an ", "answer"])));
    let layer = layer(Budget::daily(usd!(1)));
    let open = layer
        .layer(probe.clone())
        .oneshot(call_costing(usd!(0.70)))
        .await
        .unwrap();
    for _ in 0..100 {
        let response = layer
            .layer(probe.clone())
            .oneshot(call_costing(usd!(0.31)))
            .await
            .unwrap();
        assert_eq!(code(&response), EXCEEDED);
    }
    assert_eq!(probe.calls(), 1);
    drop(open);
    let response = layer
        .layer(probe.clone())
        .oneshot(call_costing(usd!(0.30)))
        .await
        .unwrap();
    assert_eq!(code(&response), OK);
}

#[test]
fn a_refusal_gives_the_readiness_of_the_inner_service_back() {
    in_paused_time(async {
        for cost in [usd!(0.90), usd!(0.80)] {
            let probe = ProbeService::new(|_| Answer::ok(ScriptedBody::new())).capacity(1);
            let layer = layer(Budget::daily(usd!(0.80)));
            let _open = call(&layer, call_costing(usd!(0.80))).await;
            let mut service = layer.layer(probe.clone());
            let ready = ServiceExt::<Request<ScriptedBody>>::ready(&mut service);
            let response = ready.await.unwrap().call(call_costing(cost)).await.unwrap();
            assert!(!response.status().is_success());
            assert_eq!(probe.permits_out(), 0, "an idle service keeps others waiting");
        }
    });
}

#[tokio::test]
async fn budget_state_is_told_on_answers_and_refusals() {
    let hands = SetClock::at(midnight() + 20 * HOUR);
    let ledger = MemoryLedger::new().wall_clock(hands.clock());
    let layer = BudgetLayer::new(ledger, Budget::daily(usd!(1))).unwrap();
    drop(call(&layer, call_costing(usd!(0.25))).await);
    let admitted = call(&layer, call_costing(usd!(0.50))).await;
    let expected = BudgetState::new(usd!(1), usd!(0.25), usd!(0.50), 4 * HOUR);
    assert_eq!(admitted.extensions().get(), Some(&expected));
    let refused = call(&layer, call_costing(usd!(0.26))).await;
    assert_eq!(refused.extensions().get(), Some(&expected));
}

// === accounts and plans ===

#[tokio::test]
async fn plans_have_budgets_of_their_own_and_an_unknown_plan_gets_the_fallback() {
    let layer = layer(
        Plans::fallback("free")
            .plan("free", Budget::daily(usd!(2)))
            .plan("pro", Budget::daily(usd!(20)).request_cap(usd!(20))),
    );
    assert_eq!(code(&call(&layer, call_of("a", "pro", usd!(20))).await), OK);
    assert_eq!(
        code(&call(&layer, call_of("b", "free", usd!(0.90))).await),
        TOO_EXPENSIVE
    );
    let response = call(&layer, call_of("c", "platinum", usd!(0.70))).await;
    assert_eq!(response.extensions().get::<BudgetState>().unwrap().limit, usd!(2));
}

#[tokio::test]
async fn tenants_do_not_pay_for_each_other() {
    let layer = layer(Budget::daily(usd!(0.80)));
    for tenant in ["a", "b"] {
        assert_eq!(code(&call(&layer, call_of(tenant, "free", usd!(0.80))).await), OK);
        assert_eq!(
            code(&call(&layer, call_of(tenant, "free", usd!(0.01))).await),
            EXCEEDED
        );
    }
}

#[tokio::test]
async fn by_choice_each_user_has_the_budget() {
    let of = |user: Option<&str>| {
        let mut request = call_costing(usd!(0.80));
        let mut caller = Caller::new("acme").unwrap();
        if let Some(user) = user {
            caller = caller.user(user).unwrap();
        }
        request.extensions_mut().insert(caller);
        request
    };
    let per_user = layer(Budget::daily(usd!(0.80)).per_user());
    for user in [Some("ann"), Some("bob"), None] {
        assert_eq!(code(&call(&per_user, of(user)).await), OK, "{user:?}");
        assert_eq!(code(&call(&per_user, of(user)).await), EXCEEDED, "{user:?}");
    }
    let per_tenant = layer(Budget::daily(usd!(0.80)));
    drop(call(&per_tenant, of(Some("ann"))).await);
    assert_eq!(code(&call(&per_tenant, of(Some("bob"))).await), EXCEEDED);
}

#[tokio::test]
async fn without_a_caller_a_call_is_refused_or_by_choice_shares_one_account() {
    let anonymous = || {
        let mut request = call_costing(usd!(0.80));
        request.extensions_mut().remove::<Caller>();
        request
    };
    let refusing = layer(Budget::daily(usd!(0.80)));
    assert_eq!(code(&call(&refusing, anonymous()).await), (401, "missing_caller"));

    let budgets = Plans::fallback("free")
        .plan("pro", Budget::daily(usd!(20)))
        .plan("free", Budget::daily(usd!(0.80)));
    let sharing = layer(budgets).on_missing_caller(MissingCaller::Anonymous);
    drop(call(&sharing, anonymous()).await);
    assert_eq!(code(&call(&sharing, anonymous()).await), EXCEEDED);
    let named = call(&sharing, call_of("anonymous", "free", usd!(0.80))).await;
    assert_eq!(code(&named), OK, "a tenant of that name is somebody else");
    assert_eq!(sharing.balance(None).await.unwrap().spent.to_string(), "0.80 USD");
}

// === prices ===

/// A call whose estimate, if any, has no cost.
fn unpriced(estimate: Option<Estimate>, model: Option<&str>) -> Request<ScriptedBody> {
    let mut request = call_costing(NanoUsd::ZERO);
    request.extensions_mut().remove::<Estimate>();
    let call = Call::default();
    if let Some(estimate) = estimate {
        call.set_estimate(estimate);
    }
    if let Some(model) = model {
        call.set_ai(AiCall::new(Operation::ChatCompletions, model));
    }
    request.extensions_mut().insert(call);
    request
}

#[tokio::test]
async fn an_operation_that_estimate_does_not_know_has_no_price() {
    let request = unpriced(None, None);
    request
        .extensions()
        .get::<Call>()
        .unwrap()
        .enter(LayerKind::Estimate);
    let layer = layer(Budget::daily(usd!(2)));
    assert_eq!(code(&call(&layer, request).await), (404, "model_not_found"));
}

fn reserved<B>(response: &Response<B>) -> Option<NanoUsd> {
    response
        .extensions()
        .get::<BudgetState>()
        .map(|state| state.reserved)
}

#[tokio::test]
async fn a_call_without_an_estimate_costs_1200_and_600_tokens_at_the_assumed_price() {
    let layer = layer(Budget::daily(usd!(2))).assumed_price(usd!(0.50), usd!(1.50));
    assert_eq!(
        reserved(&call(&layer, unpriced(None, None)).await),
        Some(usd!(0.0015))
    );
}

#[tokio::test]
async fn a_handlers_own_counts_are_priced_at_the_assumed_price() {
    let layer = layer(Budget::daily(usd!(2))).assumed_price(usd!(0.50), usd!(1.50));
    let own = Estimate::given(2_000_000, 0).unwrap();
    assert_eq!(
        code(&call(&layer, unpriced(Some(own), None)).await),
        TOO_EXPENSIVE
    );
    let own = Estimate::given(1_000, 1_000).unwrap();
    assert_eq!(
        reserved(&call(&layer, unpriced(Some(own), None)).await),
        Some(usd!(0.002))
    );
}

#[tokio::test]
async fn a_fixed_cost_is_for_calls_that_have_no_cost_of_their_own() {
    let layer = layer(Budget::daily(usd!(2))).fixed_cost(usd!(0.01));
    assert_eq!(
        reserved(&call(&layer, unpriced(None, None)).await),
        Some(usd!(0.01))
    );
    assert_eq!(
        reserved(&call(&layer, call_costing(usd!(0.02))).await),
        Some(usd!(0.02))
    );
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_or_by_choice_flat_or_free() {
    let counts = TokenCounts::new(10, 10);
    let of_unknown_model = || {
        let estimate = Estimate::new(EstimateMode::Fast, counts).unwrap();
        unpriced(Some(estimate), Some("gpt-99"))
    };
    // An assumed price is for calls without a model: it must not hide that this one is unknown.
    let refusing = layer(Budget::daily(usd!(2))).assumed_price(usd!(0.50), usd!(1.50));
    assert_eq!(
        code(&call(&refusing, of_unknown_model()).await),
        (404, "model_not_found")
    );
    let flat = layer(Budget::daily(usd!(2))).on_unknown_price(UnknownPrice::Flat(usd!(0.05)));
    assert_eq!(reserved(&call(&flat, of_unknown_model()).await), Some(usd!(0.05)));
    let free = layer(Budget::daily(usd!(2))).on_unknown_price(UnknownPrice::Free);
    assert_eq!(
        reserved(&call(&free, of_unknown_model()).await),
        Some(NanoUsd::ZERO)
    );
}

#[tokio::test]
async fn a_call_that_nobody_can_price_is_the_operators_fault() {
    let layer = layer(Budget::daily(usd!(2)));
    assert_eq!(
        code(&call(&layer, unpriced(None, None)).await),
        (500, "misconfigured")
    );
    let less_than_nothing = call(&layer, call_costing(nanos(-1))).await;
    assert_eq!(code(&less_than_nothing), (500, "misconfigured"));
}

// === time ===

/// Refused now: admitted after exactly the time that is told, and not a moment before.
async fn wait_of(budget: Budget, now: SystemTime) -> Duration {
    let hands = SetClock::at(now);
    let ledger = MemoryLedger::new().wall_clock(hands.clock());
    let layer = BudgetLayer::new(ledger, budget).unwrap();
    drop(call(&layer, call_costing(usd!(0.80))).await);
    let response = call(&layer, call_costing(usd!(0.80))).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let wait = response
        .extensions()
        .get::<RefusedBy>()
        .unwrap()
        .retry_after
        .unwrap();
    let whole_seconds: u64 = response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(whole_seconds, wait.as_secs_f64().ceil() as u64);

    hands.set(now + wait - Duration::from_nanos(1));
    assert_eq!(
        call(&layer, call_costing(usd!(0.80))).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    hands.set(now + wait);
    assert_eq!(
        call(&layer, call_costing(usd!(0.80))).await.status(),
        StatusCode::OK
    );
    wait
}

#[tokio::test]
async fn waiting_exactly_as_told_admits() {
    let budget = Budget::daily(usd!(0.80));
    let late = midnight() + DAY - Duration::from_millis(1_500);
    assert_eq!(wait_of(budget.clone(), late).await, Duration::from_millis(1_500));
    assert_eq!(wait_of(budget.clone(), midnight()).await, DAY);
    // The clocks of Beirut went from 24:00 back to 23:00 on 2025-10-25: a day of 25 hours.
    let saturday = SystemTime::UNIX_EPOCH + Duration::from_secs(1_761_339_600);
    assert_eq!(wait_of(budget.in_zone("Asia/Beirut"), saturday).await, 25 * HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_60_seconds_after_the_deadline_of_the_call() {
    for (deadline_s, lease_s) in [(None, 540 + 60), (Some(30), 30 + 60)] {
        let hands = SetClock::at(midnight());
        let ledger = MemoryLedger::new().wall_clock(hands.clock());
        let layer = BudgetLayer::new(ledger.clone(), Budget::daily(usd!(1))).unwrap();
        let mut request = call_costing(usd!(0.5));
        if let Some(seconds) = deadline_s {
            let at = tokio::time::Instant::now() + Duration::from_secs(seconds);
            request.extensions_mut().insert(Deadline(at.into_std()));
        }
        let _open = call(&layer, request).await;
        hands.set(midnight() + Duration::from_secs(lease_s) - Duration::from_nanos(1));
        assert_eq!(ledger.open_reservations(), 1, "{deadline_s:?}");
        hands.set(midnight() + Duration::from_secs(lease_s));
        assert_eq!(ledger.open_reservations(), 0, "{deadline_s:?}");
    }
}

#[tokio::test]
async fn the_deadline_is_set_for_the_layers_inside() {
    let probe = ProbeService::new(|_| Answer::ok(ScriptedBody::new()));
    let layer = layer(Budget::daily(usd!(1))).deadline(Duration::from_secs(5));
    layer
        .layer(probe.clone())
        .oneshot(call_costing(usd!(0.1)))
        .await
        .unwrap();
    let call = probe.seen()[0].extensions.get::<Call>().unwrap().clone();
    let left = call.deadline().unwrap().left(std::time::Instant::now());
    assert!(
        left > Duration::from_secs(4) && left <= Duration::from_secs(5),
        "{left:?}"
    );
}

// === ledgers ===

#[tokio::test]
async fn a_ledger_that_is_away_refuses_by_default_and_the_call_is_not_made() {
    let (ledger, probe) = (
        Away::default(),
        ProbeService::new(|_| Answer::ok(ScriptedBody::new())),
    );
    let layer = BudgetLayer::new(ledger.clone(), Budget::daily(usd!(1))).unwrap();
    let response = layer
        .layer(probe.clone())
        .oneshot(call_costing(usd!(0.1)))
        .await
        .unwrap();
    assert_eq!(code(&response), (503, "ledger_unavailable"));
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!((ledger.asked(), probe.calls()), (1, 0));
    assert!(layer.balance(None).await.is_err());
}

#[tokio::test]
async fn a_ledger_that_is_away_lets_pass_by_choice_and_invents_no_state() {
    let layer = BudgetLayer::new(Away::default(), Budget::daily(usd!(1)))
        .unwrap()
        .outage(Outage::Open);
    let response = layer
        .layer(service_fn(ok))
        .oneshot(call_costing(usd!(0.1)))
        .await
        .unwrap();
    assert_eq!(code(&response), OK);
    assert!(response.extensions().get::<BudgetState>().is_none());
    let too_expensive = layer
        .layer(service_fn(ok))
        .oneshot(call_costing(usd!(0.9)))
        .await
        .unwrap();
    assert_eq!(
        code(&too_expensive),
        TOO_EXPENSIVE,
        "the cap of a call needs no ledger"
    );
}

#[tokio::test(start_paused = true)]
async fn a_remote_ledger_decides_alike() {
    let layer = BudgetLayer::new(Remote::default(), Budget::daily(usd!(1))).unwrap();
    let make = |cost| layer.layer(service_fn(ok)).oneshot(call_costing(cost));
    let open = make(usd!(0.7)).await.unwrap();
    assert_eq!(code(&open), OK);
    assert_eq!(code(&make(usd!(0.4)).await.unwrap()), EXCEEDED);
    drop(open);
    assert_eq!(code(&make(usd!(0.3)).await.unwrap()), OK);
}

#[tokio::test]
async fn the_status_of_an_exhausted_budget_is_402_by_choice() {
    let layer = layer(Budget::daily(usd!(0.8))).exhausted_status(ExhaustedStatus::PaymentRequired);
    drop(call(&layer, call_costing(usd!(0.8))).await);
    assert_eq!(
        code(&call(&layer, call_costing(usd!(0.8))).await),
        (402, "ai_daily_budget_exceeded")
    );
}

/// An answer that is there at once needs no instance of its own.
#[tokio::test]
async fn a_ledger_in_memory_never_clones_the_inner_service() {
    struct Uncloned;
    impl Clone for Uncloned {
        fn clone(&self) -> Self {
            panic!("cloned")
        }
    }
    impl<B> Service<Request<B>> for Uncloned {
        type Response = Response<ScriptedBody>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<B>) -> Self::Future {
            ok(request)
        }
    }
    let mut service: BudgetService<Uncloned, _> = layer(Budget::daily(usd!(2))).layer(Uncloned);
    let response = service.call(call_costing(usd!(0.1))).await.unwrap();
    assert_eq!(code(&response), OK);
}
