//! Bursts, exact waits, and what is shared by whom.

use crate::support::*;
use std::time::Duration;
use tokio::time::{Instant, advance};
use tower_ai_core::{ConfigError, Plans, RefusedBy};
use tower_ai_ratelimit::{DAY, Limits, MemoryStore, RateLimitLayer, SECOND, bucket, reference_plans};

fn layer(limits: impl Into<Plans<Limits>>) -> RateLimitLayer<MemoryStore> {
    RateLimitLayer::new(MemoryStore::new(), limits).unwrap()
}

/// Sends what a point-of-sale client has queued in 30 minutes without a network, and waits as it is told.
async fn drain_queue(plan: &str) -> (usize, Duration) {
    let service = limited(&layer(reference_plans()));
    let (start, mut at_once) = (Instant::now(), 0);
    for _ in 0..180 {
        loop {
            let response = send(&service, plain(on_plan("shop", plan))).await;
            match response.extensions().get::<RefusedBy>() {
                None => break,
                Some(refused) => advance(refused.retry_after.unwrap()).await,
            }
        }
        at_once += usize::from(start.elapsed().is_zero());
    }
    (at_once, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_180_is_drained_at_the_rate_of_the_plan_and_nothing_is_lost() {
    assert_eq!(drain_queue("growth").await, (180, Duration::ZERO));
    assert_eq!(drain_queue("free").await, (20, Duration::from_secs(80)));
}

#[tokio::test(start_paused = true)]
async fn waiting_exactly_the_told_time_admits_and_a_millisecond_less_does_not() {
    let service = limited(&layer(
        Limits::per_tenant().requests("rps", bucket(2).refill(2).per(SECOND)),
    ));
    assert_eq!(passed(&service, 3, || plain(tenant("acme"))).await, 2);
    advance(Duration::from_millis(499)).await;
    assert_eq!(passed(&service, 1, || plain(tenant("acme"))).await, 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(passed(&service, 2, || plain(tenant("acme"))).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_reference_plans_are_as_documented() {
    for (plan, burst, per_second) in [
        ("free", 20, 2),
        ("starter", 100, 10),
        ("growth", 500, 50),
        ("pro", 200, 20),
        ("enterprise", 2_000, 200),
    ] {
        let service = limited(&layer(reference_plans()));
        let request = || plain(on_plan("acme", plan));
        assert_eq!(passed(&service, burst + 10, request).await, burst, "{plan}");
        advance(SECOND).await;
        assert_eq!(
            passed(&service, per_second + 10, request).await,
            per_second,
            "{plan}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_a_known_plan_gets_the_fallback() {
    let service = limited(&layer(reference_plans()));
    assert_eq!(passed(&service, 30, || plain(tenant("acme"))).await, 20);
    assert_eq!(
        passed(&service, 30, || plain(on_plan("other", "platinum"))).await,
        20
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_of_plan_applies_at_once_and_brings_no_second_burst() {
    let service = limited(&layer(reference_plans()));
    assert_eq!(passed(&service, 30, || plain(on_plan("acme", "free"))).await, 20);
    assert_eq!(passed(&service, 30, || plain(on_plan("acme", "growth"))).await, 0);
    advance(SECOND).await;
    assert_eq!(
        passed(&service, 60, || plain(on_plan("acme", "growth"))).await,
        50
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_told_after_a_change_of_plan_is_true() {
    let plans = Plans::fallback("daily")
        .plan(
            "daily",
            Limits::per_tenant().requests("r", bucket(5).refill(5).per(DAY)),
        )
        .plan(
            "fast",
            Limits::per_tenant().requests("r", bucket(5).refill(1).per(SECOND)),
        );
    let service = limited(&layer(plans));
    assert_eq!(passed(&service, 6, || plain(tenant("acme"))).await, 5);
    let refused = send(&service, plain(on_plan("acme", "fast"))).await;
    let wait = refused
        .extensions()
        .get::<RefusedBy>()
        .unwrap()
        .retry_after
        .unwrap();
    assert_eq!(
        wait,
        Duration::from_secs(6),
        "a day of waiting is not carried over"
    );
    advance(wait).await;
    assert_eq!(passed(&service, 2, || plain(on_plan("acme", "fast"))).await, 1);
}

#[tokio::test(start_paused = true)]
async fn tenants_do_not_share() {
    let service = limited(&layer(
        Limits::per_tenant().requests("rps", bucket(5).refill(1).per(SECOND)),
    ));
    assert_eq!(passed(&service, 9, || plain(tenant("noisy"))).await, 5);
    assert_eq!(passed(&service, 5, || plain(tenant("quiet"))).await, 5);
}

#[tokio::test(start_paused = true)]
async fn every_service_of_a_layer_shares_its_limits() {
    let layer = layer(Limits::in_all().requests("rps", bucket(5).refill(1).per(SECOND)));
    let mut sum = 0;
    for _connection in 0..300 {
        sum += passed(&limited(&layer.clone()), 1, || plain(None)).await;
    }
    assert_eq!(sum, 5);
}

#[tokio::test(start_paused = true)]
async fn layers_on_one_store_share_limits_of_the_same_name_and_key() {
    let store = MemoryStore::new();
    let five = bucket(5).refill(1).per(SECOND);
    let one = Limits::per_tenant().requests("shared", five);
    let other = Limits::per_tenant()
        .requests("alone", five)
        .requests("shared", five);
    let by_user = Limits::per_user().requests("shared", five);
    let service = |limits| limited(&RateLimitLayer::new(store.clone(), limits).unwrap());
    let caller = || plain(tenant("acme").user("ann").unwrap());
    assert_eq!(passed(&service(one), 3, caller).await, 3);
    assert_eq!(passed(&service(other), 3, caller).await, 2);
    assert_eq!(passed(&service(by_user), 9, caller).await, 5, "another key");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_counted_in_all_limits_or_in_none() {
    let limits = Limits::per_tenant()
        .requests("tenant", bucket(3).refill(1).per(DAY))
        .and(Limits::per_user().requests("user", bucket(2).refill(1).per(DAY)))
        .and(Limits::in_all().requests("all", bucket(100).refill(1).per(DAY)));
    let service = limited(&layer(limits));
    let of = |user| move || plain(tenant("acme").user(user).unwrap());
    assert_eq!(
        passed(&service, 9, of("ann")).await,
        2,
        "7 were refused for the user"
    );
    assert_eq!(passed(&service, 9, of("bob")).await, 1, "the tenant had one left");

    let other = send(&service, plain(tenant("other").user("eve").unwrap())).await;
    let quota = other.extensions().get::<tower_ai_core::Quota>().unwrap();
    let left: Vec<_> = quota.limits.iter().map(|limit| limit.remaining).collect();
    assert_eq!(left, [2, 1, 96], "four were admitted in all");
}

#[tokio::test(start_paused = true)]
async fn a_limit_can_have_a_key_of_your_own() {
    fn key(parts: &http::request::Parts) -> Option<String> {
        Some(parts.headers.get("x-job")?.to_str().ok()?.to_owned())
    }
    let service = limited(&layer(
        Limits::keyed_by(key).requests("job", bucket(2).refill(1).per(SECOND)),
    ));
    let job = |name: &'static str| {
        move || {
            let mut request = plain(None);
            request.headers_mut().insert("x-job", name.parse().unwrap());
            request
        }
    };
    assert_eq!(passed(&service, 5, job("a")).await, 2);
    assert_eq!(passed(&service, 5, job("b")).await, 2);
    assert_eq!(send(&service, plain(None)).await.status(), 401);
}

fn error(limits: impl Into<Plans<Limits>>) -> String {
    let error: ConfigError = RateLimitLayer::new(MemoryStore::new(), limits).unwrap_err();
    error.to_string()
}

#[test]
fn a_configuration_that_cannot_work_names_the_path() {
    let plan = |limits| Plans::fallback("free").plan("free", limits);
    let one = bucket(1).refill(1).per(SECOND);
    let tenant = Limits::per_tenant;
    assert_eq!(
        error(plan(tenant().requests("rpm", bucket(0).refill(1).per(SECOND)))),
        "plans.free.rpm: capacity is zero"
    );
    assert_eq!(
        error(plan(tenant().tokens("tpm", bucket(1).refill(0).per(SECOND)))),
        "plans.free.tpm: refill is zero"
    );
    assert_eq!(
        error(tenant().requests("rpm", bucket(1).refill(1).per(Duration::ZERO))),
        "rpm: window is zero"
    );
    assert_eq!(
        error(plan(
            tenant().requests("rpm", bucket(u64::MAX).refill(1).per(SECOND))
        )),
        "plans.free.rpm: capacity is above 999,999,999,999,999"
    );
    assert_eq!(
        error(plan(
            tenant().requests("a", one).and(Limits::in_all().tokens("a", one))
        )),
        "plans.free.a: the limit is defined twice"
    );
    assert_eq!(error(plan(tenant())), "plans.free: there is no limit in it");
    assert_eq!(
        error(tenant().requests("say \"hi\"", one)),
        "say \"hi\": a name is printable ASCII without quotes and backslashes"
    );
    let many = (0..9).fold(tenant(), |limits, n| limits.requests(format!("limit {n}"), one));
    assert_eq!(error(many), "9 limits, at most 8 are allowed");
    assert_eq!(
        error(Plans::fallback("free").plan("pro", tenant().requests("a", one))),
        "plans: the fallback plan \"free\" is not defined"
    );
}
