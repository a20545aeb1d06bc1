//! Configurations that cannot work are found when the layer is built, and say where.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{NanoUsd, Plans, usd};

fn error(budgets: impl Into<Plans<Budget>>) -> String {
    BudgetLayer::new(MemoryLedger::new(), budgets)
        .unwrap_err()
        .to_string()
}

fn free(budget: Budget) -> Plans<Budget> {
    Plans::fallback("pro")
        .plan("pro", Budget::daily(usd!(20)))
        .plan("free", budget)
}

#[test]
fn each_bad_field_has_its_path() {
    let two = || Budget::daily(usd!(2));
    assert_eq!(
        error(free(two().in_zone("Asia/Byrut"))),
        "plans.free.zone: there is no time zone \"Asia/Byrut\"; write one such as \"Asia/Beirut\""
    );
    for (budget, path) in [
        (Budget::daily(usd!(0)), "plans.free.limit: "),
        (Budget::monthly(NanoUsd::from_nanos(-1)), "plans.free.limit: "),
        (two().request_cap(usd!(0)), "plans.free.request_cap: "),
        (two().alert_at_percent(0), "plans.free.alert_at_percent: 0 % "),
        (two().alert_at_percent(101), "plans.free.alert_at_percent: 101 % "),
        (
            two().alert_at_percent(50).alert_at_percent(50),
            "plans.free.alert_at_percent: 50 % is there twice",
        ),
    ] {
        let error = error(free(budget));
        assert!(error.starts_with(path), "{error}");
    }
}

#[test]
fn a_single_budget_has_a_path_without_a_plan() {
    assert_eq!(error(Budget::daily(usd!(0))), "limit: a budget has to be above 0");
}

#[test]
fn plans_are_checked_too() {
    let error = error(Plans::fallback("free").plan("pro", Budget::daily(usd!(20))));
    assert_eq!(error, "plans: the fallback plan \"free\" is not defined");
}
