//! The memory ledger, one rule at a time.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use std::{slice, time::Duration};
use support::{
    Alerts, DAY, HOUR, admitted, amount, claim, midnight, refused, reserve, reserve_as, sums, tenant,
};
use testkit::SetClock;
use tower_ai_budget::{
    Account, Alarm, AlertCause, Amount, Claim, Ledger, MemoryLedger, OnExpire, Period, Receipt,
    ReservationId, Reserved, Unit, Window,
};
use tower_ai_core::{Basis, Id, Step};

const MINUTE: Duration = Duration::from_secs(60);

/// A ledger at noon, and the hands of its clock.
fn at_noon() -> (MemoryLedger, SetClock) {
    let hands = SetClock::at(midnight() + 12 * HOUR);
    (MemoryLedger::new().wall_clock(hands.clock()), hands)
}

fn acme(limit: i64) -> Claim {
    claim(tenant("acme"), limit)
}

fn settle(ledger: &MemoryLedger, receipt: &Receipt, actual: i64) {
    ledger.settle(
        receipt.clone(),
        amount(actual),
        Basis::Reported,
        &Alarm::default(),
    );
}

#[tokio::test]
async fn exactly_the_limit_is_admitted_and_not_one_more() {
    let (ledger, _) = at_noon();
    admitted(reserve(&ledger, &[acme(100)], 60));
    refused(reserve(&ledger, &[acme(100)], 41));
    admitted(reserve(&ledger, &[acme(100)], 40));
    refused(reserve(&ledger, &[acme(100)], 1));
    assert_eq!(sums(&ledger, &acme(100)).await, (0, 100));
}

#[tokio::test]
async fn a_refused_call_never_moves_the_counter() {
    let (ledger, _) = at_noon();
    let receipt = admitted(reserve(&ledger, &[acme(100)], 90));
    settle(&ledger, &receipt, 90);
    for _ in 0..1_000 {
        refused(reserve(&ledger, &[acme(100)], 11));
    }
    assert_eq!(sums(&ledger, &acme(100)).await, (90, 0));
    admitted(reserve(&ledger, &[acme(100)], 10));
}

#[tokio::test]
async fn what_costs_nothing_passes_where_nothing_is_left() {
    let (ledger, _) = at_noon();
    admitted(reserve(&ledger, &[acme(100)], 100));
    let free = admitted(reserve(&ledger, &[acme(100)], 0));
    settle(&ledger, &free, 0);
    assert_eq!(sums(&ledger, &acme(100)).await, (0, 100));
}

#[tokio::test]
async fn the_unused_part_is_given_back() {
    let (ledger, _) = at_noon();
    let receipt = admitted(reserve(&ledger, &[acme(100)], 80));
    settle(&ledger, &receipt, 30);
    assert_eq!(sums(&ledger, &acme(100)).await, (30, 0));
}

#[tokio::test]
async fn more_than_was_reserved_is_debt_that_blocks_the_next_call() {
    let (ledger, _) = at_noon();
    let receipt = admitted(reserve(&ledger, &[acme(100)], 10));
    settle(&ledger, &receipt, 130);
    assert_eq!(sums(&ledger, &acme(100)).await, (130, 0));
    refused(reserve(&ledger, &[acme(100)], 1));
}

#[tokio::test]
async fn only_the_first_settlement_or_release_counts() {
    for first in ["settle", "release"] {
        let (ledger, _) = at_noon();
        let receipt = admitted(reserve(&ledger, &[acme(100)], 50));
        match first {
            "settle" => settle(&ledger, &receipt, 20),
            _ => ledger.release(receipt.clone()),
        }
        for _ in 0..3 {
            settle(&ledger, &receipt, 40);
            ledger.release(receipt.clone());
        }
        let spent = if first == "settle" { 20 } else { 0 };
        assert_eq!(sums(&ledger, &acme(100)).await, (spent, 0), "{first}");
    }
}

#[tokio::test]
async fn the_same_id_again_gives_the_same_receipt_even_after_midnight() {
    let (ledger, hands) = at_noon();
    hands.set(midnight() + DAY - Duration::from_secs(1));
    let id = ReservationId::fresh();
    let once = admitted(reserve_as(&ledger, id, &[acme(100)], 70));
    hands.set(midnight() + DAY + Duration::from_secs(1));
    let again = admitted(reserve_as(&ledger, id, &[acme(100)], 70));
    assert_eq!(once.holds()[0].span, again.holds()[0].span);
    assert_eq!(ledger.open_reservations(), 1);
    assert_eq!(sums(&ledger, &acme(100)).await, (0, 0), "today has nothing of it");
}

#[tokio::test]
async fn several_accounts_are_held_all_or_not_at_all() {
    let (ledger, _) = at_noon();
    let nightly = claim(
        Account::Job {
            tenant: Id::new("acme").unwrap(),
            job: Id::new("nightly").unwrap(),
        },
        50,
    );
    let both = [acme(100), nightly.clone()];
    let receipt = admitted(reserve(&ledger, &both, 50));
    let (over, _) = refused(reserve(&ledger, &both, 1));
    assert_eq!(over, 1, "the job has no room");
    assert_eq!(
        sums(&ledger, &both[0]).await,
        (0, 50),
        "and the tenant paid nothing for it"
    );
    settle(&ledger, &receipt, 20);
    assert_eq!(sums(&ledger, &both[0]).await, (20, 0));
    assert_eq!(sums(&ledger, &nightly).await, (20, 0));
}

#[tokio::test]
async fn of_several_accounts_without_room_the_one_that_resets_last_is_told() {
    let (ledger, _) = at_noon();
    let mut month = claim(Account::Anonymous, 10);
    month.window = Window::new(Period::Month, "UTC").unwrap();
    let (over, _) = refused(reserve(
        &ledger,
        &[acme(10), month, claim(tenant("other"), 10)],
        11,
    ));
    assert_eq!(over, 1);
}

#[tokio::test]
async fn accounts_that_look_alike_are_not_the_same() {
    let (ledger, _) = at_noon();
    let user = |tenant: &str, user: &str| Account::User {
        tenant: Id::new(tenant).unwrap(),
        user: Id::new(user).unwrap(),
    };
    for account in [
        user("a/b", "c"),
        user("a", "b/c"),
        tenant("anonymous"),
        Account::Anonymous,
        tenant("a"),
        tenant("user:a/b"),
    ] {
        admitted(reserve(&ledger, &[claim(account, 10)], 10));
    }
}

#[tokio::test]
async fn a_new_window_starts_empty_and_a_call_is_booked_where_it_was_reserved() {
    let (ledger, hands) = at_noon();
    hands.set(midnight() + DAY - MINUTE / 2);
    let yesterdays = admitted(reserve(&ledger, &[acme(100)], 100));
    hands.set(midnight() + DAY);
    let todays = admitted(reserve(&ledger, &[acme(100)], 100));
    settle(&ledger, &yesterdays, 90);
    settle(&ledger, &todays, 10);
    assert_eq!(sums(&ledger, &acme(100)).await, (10, 0));
    hands.set(midnight() + DAY - MINUTE / 2);
    assert_eq!(sums(&ledger, &acme(100)).await, (90, 0));
}

#[tokio::test]
async fn an_expired_lease_gives_back_and_a_late_settlement_is_booked_in_full() {
    let (ledger, hands) = at_noon();
    let receipt = admitted(reserve(&ledger, &[acme(100)], 100));
    hands.advance(MINUTE - Duration::from_nanos(1));
    assert_eq!(ledger.open_reservations(), 1);
    refused(reserve(&ledger, &[acme(100)], 100));
    hands.advance(Duration::from_nanos(1));
    let other = admitted(reserve(&ledger, &[acme(100)], 100));
    settle(&ledger, &receipt, 70);
    settle(&ledger, &receipt, 70);
    assert_eq!(
        sums(&ledger, &acme(100)).await,
        (70, 100),
        "it can overdraw, and says so"
    );
    ledger.release(other);
    refused(reserve(&ledger, &[acme(100)], 31));
}

#[tokio::test]
async fn an_expired_lease_is_charged_by_choice_and_corrected_by_a_late_settlement() {
    let (ledger, hands) = at_noon();
    let ledger = ledger.on_expire(OnExpire::Charge);
    let settled = admitted(reserve(&ledger, &[acme(100)], 60));
    let released = admitted(reserve(&ledger, &[acme(100)], 40));
    hands.advance(MINUTE);
    assert_eq!(sums(&ledger, &acme(100)).await, (100, 0));
    refused(reserve(&ledger, &[acme(100)], 1));
    settle(&ledger, &settled, 25);
    ledger.release(released);
    assert_eq!(sums(&ledger, &acme(100)).await, (25, 0));
}

#[tokio::test]
async fn with_nobody_alive_nothing_is_reserved_after_one_lease() {
    let (ledger, hands) = at_noon();
    for _ in 0..50 {
        drop(reserve(&ledger, &[acme(100)], 2));
    }
    assert_eq!(ledger.drain(MINUTE).await.left, 50);
    hands.advance(MINUTE);
    assert_eq!(ledger.drain(MINUTE).await.left, 0);
    assert_eq!(sums(&ledger, &acme(100)).await, (0, 0));
}

#[tokio::test]
async fn a_limit_that_changes_in_mid_window_holds_at_once() {
    let (ledger, _) = at_noon();
    let receipt = admitted(reserve(&ledger, &[acme(100)], 90));
    settle(&ledger, &receipt, 90);
    refused(reserve(&ledger, &[acme(50)], 1));
    admitted(reserve(&ledger, &[acme(1_000)], 910));
    assert_eq!(sums(&ledger, &acme(50)).await, (90, 910));
}

#[tokio::test]
async fn clones_share_the_books() {
    let (ledger, _) = at_noon();
    admitted(reserve(&ledger.clone(), &[acme(100)], 100));
    refused(reserve(&ledger, &[acme(100)], 1));
}

#[tokio::test]
async fn amounts_of_different_units_never_meet() {
    let (ledger, _) = at_noon();
    let requests = Claim::new(
        tenant("acme"),
        Window::new(Period::Day, "UTC").unwrap(),
        Amount::new(1, Unit::Requests),
    );
    let one = Amount::new(1, Unit::Requests);
    let ask = |claim: &Claim, amount| {
        ledger.reserve(ReservationId::fresh(), slice::from_ref(claim), amount, MINUTE)
    };
    let Step::Now(Reserved::Admitted { .. }) = ask(&requests, one) else {
        panic!("counted in requests")
    };
    let Step::Now(Reserved::Refused { .. }) = ask(&requests, one) else {
        panic!("one request a day")
    };
    assert_eq!(
        sums(&ledger, &acme(100)).await,
        (0, 0),
        "dollars are another account"
    );
    let Step::Now(Reserved::Unavailable(_)) = ask(&acme(100), one) else {
        panic!("requests against a limit in dollars")
    };
}

#[test]
fn what_cannot_be_decided_is_unavailable_not_a_no() {
    let (ledger, _) = at_noon();
    for (claims, value) in [
        (vec![acme(100)], -1),
        (vec![acme(100), acme(100)], 1), // together they could overdraw
    ] {
        let reserved = reserve(&ledger, &claims, value);
        assert!(matches!(reserved, Reserved::Unavailable(_)), "{reserved:?}");
    }
    assert_eq!(ledger.open_reservations(), 0);
}

#[tokio::test]
async fn sums_beyond_an_integer_do_not_wrap() {
    let (ledger, _) = at_noon();
    for _ in 0..3 {
        let receipt = admitted(reserve(&ledger, &[acme(i64::MAX)], 0));
        settle(&ledger, &receipt, i64::MAX);
    }
    assert_eq!(sums(&ledger, &acme(i64::MAX)).await, (i64::MAX, 0));
    refused(reserve(&ledger, &[acme(i64::MAX)], i64::MAX));
}

// === bounds ===

#[test]
fn a_full_ledger_is_unavailable_to_new_accounts_and_serves_those_it_knows() {
    let (ledger, hands) = at_noon();
    let ledger = ledger.max_accounts(2);
    let known = claim(tenant("a"), 100);
    admitted(reserve(&ledger, slice::from_ref(&known), 1));
    admitted(reserve(&ledger, &[claim(tenant("b"), 100)], 1));
    let stranger = [claim(tenant("c"), 100)];
    assert!(matches!(reserve(&ledger, &stranger, 1), Reserved::Unavailable(_)));
    refused(reserve(&ledger, &[known], 100));

    hands.set(midnight() + DAY + 12 * HOUR);
    admitted(reserve(&ledger, &stranger, 1)); // yesterday is forgotten 12 hours after it ended
}

#[test]
fn reservations_are_bounded() {
    let (ledger, hands) = at_noon();
    let ledger = ledger.max_reservations(2);
    let receipt = admitted(reserve(&ledger, &[acme(100)], 1));
    admitted(reserve(&ledger, &[acme(100)], 1));
    assert!(matches!(
        reserve(&ledger, &[acme(100)], 1),
        Reserved::Unavailable(_)
    ));
    ledger.release(receipt);
    admitted(reserve(&ledger, &[acme(100)], 1));

    hands.advance(MINUTE); // expired: they are remembered, in case they are settled late
    assert!(matches!(
        reserve(&ledger, &[acme(100)], 1),
        Reserved::Unavailable(_)
    ));
    hands.advance(12 * HOUR);
    admitted(reserve(&ledger, &[acme(100)], 1));
}

#[tokio::test]
async fn a_window_that_is_still_reserved_on_is_not_forgotten() {
    let (ledger, hands) = at_noon();
    let step = ledger.reserve(ReservationId::fresh(), &[acme(100)], amount(10), 5 * DAY);
    let Step::Now(reserved) = step else { unreachable!() };
    let receipt = admitted(reserved);
    hands.advance(3 * DAY);
    admitted(reserve(&ledger, &[acme(100)], 1));
    settle(&ledger, &receipt, 9);
    hands.set(midnight() + 12 * HOUR);
    assert_eq!(sums(&ledger, &acme(100)).await, (9, 0));
}

// === alerts ===

#[test]
fn an_alert_fires_when_what_is_spent_reaches_the_threshold() {
    let (ledger, _) = at_noon();
    let alerts = Alerts::default();
    for (actual, fired) in [(79, 0), (1, 1), (5, 1), (15, 1)] {
        let receipt = admitted(reserve(&ledger, &[acme(100)], actual));
        ledger.settle(receipt, amount(actual), Basis::Reported, &alerts.alarm());
        assert_eq!(alerts.seen().len(), fired, "after {actual} more");
    }
    let alert = &alerts.seen()[0];
    assert_eq!((alert.percent, alert.cause), (80, AlertCause::Spent));
    assert_eq!(
        (alert.spent, alert.reserved, alert.limit),
        (amount(80), amount(0), amount(100))
    );
    assert_eq!(alert.account, tenant("acme"));
    assert_eq!(alert.span.end, midnight() + DAY);
}

#[test]
fn if_reservations_fill_the_budget_first_the_first_refusal_brings_the_alert() {
    let (ledger, _) = at_noon();
    admitted(reserve(&ledger, &[acme(100)], 95));
    let (_, alerts) = refused(reserve(&ledger, &[acme(100)], 6));
    assert_eq!((alerts[0].percent, alerts[0].cause), (80, AlertCause::Reserved));
    assert_eq!((alerts[0].spent, alerts[0].reserved), (amount(0), amount(95)));
    let (_, again) = refused(reserve(&ledger, &[acme(100)], 6));
    assert!(again.is_empty());
}

#[test]
fn an_alert_for_reservations_is_not_repeated_when_they_are_spent() {
    let (ledger, _) = at_noon();
    let receipt = admitted(reserve(&ledger, &[acme(100)], 95));
    refused(reserve(&ledger, &[acme(100)], 6));
    let alerts = Alerts::default();
    ledger.settle(receipt, amount(95), Basis::Reported, &alerts.alarm());
    assert_eq!(alerts.seen(), []);
}

#[test]
fn every_threshold_fires_by_itself_and_in_the_next_window_again() {
    let (ledger, hands) = at_noon();
    let mut claim = acme(100);
    claim.alert_at = [50, 90, 100].into();
    let alerts = Alerts::default();
    for _ in 0..2 {
        for part in [50, 39, 1, 10] {
            let receipt = admitted(reserve(&ledger, slice::from_ref(&claim), part));
            ledger.settle(receipt, amount(part), Basis::Reported, &alerts.alarm());
        }
        hands.advance(DAY);
    }
    let percents: Vec<_> = alerts.seen().iter().map(|alert| alert.percent).collect();
    assert_eq!(percents, [50, 90, 100, 50, 90, 100]);
}

#[test]
fn accounts_that_alternate_do_not_repeat_each_others_alerts() {
    let (ledger, _) = at_noon();
    let alerts = Alerts::default();
    for _ in 0..10 {
        for (name, actual) in [("a", 9), ("b", 1)] {
            let receipt = admitted(reserve(&ledger, &[claim(tenant(name), 100)], actual));
            ledger.settle(receipt, amount(actual), Basis::Reported, &alerts.alarm());
        }
    }
    assert_eq!(alerts.seen().len(), 1);
}

#[test]
fn a_plan_that_changes_does_not_re_arm_alerts_and_its_limit_holds_for_settlements_too() {
    let (ledger, _) = at_noon();
    let alerts = Alerts::default();
    let early = admitted(reserve(&ledger, &[acme(100)], 85));
    let raised = admitted(reserve(&ledger, &[acme(1_000)], 1));
    ledger.settle(early, amount(85), Basis::Reported, &alerts.alarm());
    assert_eq!(alerts.seen(), [], "85 of 1,000");
    let Reserved::Refused { statement, .. } = reserve(&ledger, &[acme(80)], 10) else {
        panic!("85 of 80")
    };
    assert_eq!(statement.alerts[0].cause, AlertCause::Spent);
    ledger.settle(raised, amount(1), Basis::Reported, &alerts.alarm());
    assert_eq!(alerts.seen(), [], "fired before");
}

#[test]
fn a_call_refused_because_it_alone_exceeds_the_whole_budget_raises_the_alert_too() {
    let (ledger, _) = at_noon();
    let (_, alerts) = refused(reserve(&ledger, &[acme(100)], 101));
    assert_eq!((alerts[0].percent, alerts[0].cause), (80, AlertCause::Reserved));
    assert_eq!((alerts[0].spent, alerts[0].reserved), (amount(0), amount(0)));
    let (_, alerts) = refused(reserve(&ledger, &[acme(100)], 101));
    assert_eq!(alerts, [], "once per window");
}

#[test]
fn a_hook_may_ask_the_ledger_and_may_panic() {
    let (ledger, _) = at_noon();
    let asked = ledger.clone();
    let alarm = Alarm::new(move |_| panic!("{} open", asked.open_reservations()));
    let receipt = admitted(reserve(&ledger, &[acme(100)], 100));
    ledger.settle(receipt, amount(100), Basis::Reported, &alarm);
    refused(reserve(&ledger, &[acme(100)], 1));
}

#[test]
fn an_id_is_never_given_twice() {
    let ids: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..1_000).map(|_| ReservationId::fresh()).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), 4_000);
}
