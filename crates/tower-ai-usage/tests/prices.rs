//! Prices are exact, and change while calls run.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use proptest::prelude::*;
use std::time::{Duration, SystemTime};
use tower_ai_core::{Dialect, NanoUsd, PicoUsd, TokenCounts, WallClock, usd};
use tower_ai_usage::{GenaiBook, Price, PriceBook, PriceQuery, Prices};

/// 2026-11-30: the prices of a table depend on the day.
fn that_day() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000)
}

fn picos(query: PriceQuery<'_>, counts: &TokenCounts) -> Option<i128> {
    GenaiBook::bundled()
        .price(&query.at(that_day()), counts)
        .map(PicoUsd::picos)
}

fn openai(model: &str) -> PriceQuery<'_> {
    PriceQuery::new(model).dialect(Dialect::OpenAi)
}

fn anthropic(model: &str) -> PriceQuery<'_> {
    PriceQuery::new(model).dialect(Dialect::Anthropic)
}

fn counts(input: u64, output: u64, change: impl FnOnce(&mut TokenCounts)) -> TokenCounts {
    let mut counts = TokenCounts::new(input, output);
    change(&mut counts);
    counts
}

/// Figures of the providers' price pages, multiplied by hand.
#[test]
fn known_calls_cost_what_the_price_pages_say() {
    let plain = |input, output| counts(input, output, |_| {});
    assert_eq!(picos(openai("gpt-4o"), &plain(14, 8)), Some(115_000_000));
    assert_eq!(
        picos(openai("gpt-4o-2024-08-06"), &plain(14, 8)),
        Some(115_000_000)
    );
    assert_eq!(
        picos(anthropic("claude-sonnet-4-5"), &plain(20, 5)),
        Some(135_000_000)
    );

    let cached = counts(1_000, 100, |counts| counts.cached_read = 900);
    assert_eq!(
        picos(openai("gpt-5"), &cached),
        Some(100 * 1_250_000 + 900 * 125_000 + 100 * 10_000_000)
    );
    let written = counts(1_000, 10, |counts| {
        (counts.cached_read, counts.cache_write_5m, counts.cache_write_1h) = (500, 200, 100);
    });
    assert_eq!(
        picos(anthropic("claude-sonnet-4-5"), &written),
        Some(200 * 3_000_000 + 500 * 300_000 + 200 * 3_750_000 + 100 * 6_000_000 + 10 * 15_000_000)
    );
    let searched = counts(100, 10, |counts| counts.web_searches = 2);
    assert_eq!(
        picos(anthropic("claude-sonnet-4-6"), &searched),
        Some(100 * 3_000_000 + 10 * 15_000_000 + 2 * 10_000_000_000)
    );
}

#[test]
fn audio_has_a_price_of_its_own() {
    let spoken = counts(1_000, 100, |counts| {
        (counts.audio_in, counts.audio_out) = (400, 50)
    });
    assert_eq!(
        picos(openai("gpt-audio"), &spoken),
        Some(600 * 2_500_000 + 400 * 32_000_000 + 50 * 10_000_000 + 50 * 64_000_000)
    );
}

#[test]
fn reasoning_is_a_part_of_the_output_and_not_charged_twice() {
    let thinking = counts(10, 100, |counts| counts.reasoning = 80);
    assert_eq!(
        picos(openai("gpt-5"), &thinking),
        picos(openai("gpt-5"), &TokenCounts::new(10, 100))
    );
}

#[test]
fn the_service_tier_has_its_price() {
    let spoken = TokenCounts::new(100, 10);
    let standard = picos(openai("gpt-5"), &spoken).unwrap();
    assert_eq!(picos(openai("gpt-5").tier("default"), &spoken), Some(standard));
    assert_eq!(picos(openai("gpt-5").tier("flex"), &spoken), Some(standard / 2));
    assert_eq!(
        picos(openai("gpt-5").tier("priority"), &spoken),
        Some(standard * 2)
    );
}

#[test]
fn a_dearer_tier_without_a_known_price_is_not_charged_at_the_standard_one() {
    let spoken = TokenCounts::new(100, 10);
    let query = openai("gpt-4-turbo");
    assert!(picos(query, &spoken).is_some());
    assert_eq!(picos(query.tier("priority"), &spoken), None);
    // Anthropic's is capacity paid for in advance.
    let query = anthropic("claude-sonnet-4-5");
    assert_eq!(picos(query.tier("priority"), &spoken), picos(query, &spoken));
}

#[test]
fn a_long_context_reprices_the_whole_call() {
    let model = "gemini-2.5-pro";
    let at = |input| {
        picos(
            PriceQuery::new(model).provider("google"),
            &TokenCounts::new(input, 0),
        )
        .unwrap()
    };
    assert_eq!(at(200_000), 200_000 * 1_250_000);
    assert_eq!(at(200_001), 200_001 * 2_500_000);
}

#[test]
fn a_model_of_another_vendor_in_openais_dialect_has_its_vendors_price() {
    let spoken = TokenCounts::new(1_000, 1_000);
    assert_eq!(
        picos(openai("claude-sonnet-4-5"), &spoken),
        picos(anthropic("claude-sonnet-4-5"), &spoken)
    );
    assert_eq!(picos(openai("no-such-model"), &spoken), None);
    assert_eq!(picos(openai("gpt-5").provider("no-such-provider"), &spoken), None);
}

#[test]
fn a_model_name_has_a_length_limit() {
    let named = |bytes| {
        picos(
            anthropic(&format!("{:x<bytes$}", "claude-sonnet-4-5")),
            &TokenCounts::new(1, 1),
        )
    };
    assert!(named(256).is_some());
    assert_eq!(named(257), None);
}

#[test]
fn counts_that_contradict_each_other_are_priced_by_their_totals() {
    let odd = counts(100, 10, |counts| counts.cached_read = 500);
    assert_eq!(
        picos(openai("gpt-5"), &odd),
        picos(openai("gpt-5"), &TokenCounts::new(100, 10))
    );
}

proptest! {
    /// The table's floats come out as the integers that were meant.
    #[test]
    fn no_fraction_is_lost_to_floats(
        input in 0_u64..200_000_000,
        output in 0_u64..200_000_000,
        cached in 0_u64..=100,
    ) {
        let cached = input / 100 * cached;
        let counts = counts(input, output, |counts| counts.cached_read = cached);
        let exact = u128::from(input - cached) * 1_250_000
            + u128::from(cached) * 125_000
            + u128::from(output) * 10_000_000;
        prop_assert_eq!(picos(openai("gpt-5"), &counts), Some(exact as i128));
    }
}

#[test]
fn your_own_price_comes_first_and_takes_effect_at_once() {
    let prices = Prices::bundled();
    let clone = prices.clone();
    let counts = TokenCounts::new(1_000_000, 1_000_000);
    let price = || clone.price(&openai("gpt-5"), &counts);
    assert_eq!(price(), Some(usd!(11.25)));

    prices.set_price("gpt-5", Price::per_million(usd!(1), usd!(2)));
    assert_eq!(price(), Some(usd!(3)));

    prices.set_price("gpt-5", Price::FREE);
    assert_eq!(price(), Some(NanoUsd::ZERO));
}

#[test]
fn a_newer_table_replaces_the_old_one_and_keeps_your_own_prices() {
    let prices = Prices::bundled().free("mine");
    let newer = GenaiBook::from_json(
        r#"[{"id": "openai", "name": "OpenAI", "api_pattern": "x", "models": [
            {"id": "gpt-5", "match": {"equals": "gpt-5"}, "prices": {"input_mtok": 2, "output_mtok": 3}}
        ]}]"#,
    );
    prices.set_book(newer.unwrap());
    let counts = TokenCounts::new(1_000_000, 1_000_000);
    assert_eq!(prices.price(&openai("gpt-5"), &counts), Some(usd!(5)));
    assert_eq!(prices.price(&openai("mine"), &counts), Some(NanoUsd::ZERO));
    assert_eq!(prices.price(&openai("gpt-4o"), &counts), None);

    let error = GenaiBook::from_json("{}").unwrap_err();
    assert!(error.to_string().starts_with("not a price table"));
}

#[test]
fn without_a_table_only_your_own_prices_are_known() {
    let prices = Prices::none()
        .with_clock(WallClock::from_fn(that_day))
        .free("mine");
    let counts = TokenCounts::new(1, 1);
    assert_eq!(prices.price(&openai("gpt-5"), &counts), None);
    assert_eq!(prices.price(&openai("mine"), &counts), Some(NanoUsd::ZERO));
}

/// With `PRICE_SAMPLES=<folder>`: the rates of its `prices.json`, an independent table, against the bundled one.
#[test]
fn the_table_agrees_with_an_independent_one() {
    let Some(folder) = std::env::var_os("PRICE_SAMPLES") else {
        eprintln!("PRICE_SAMPLES is not set: no independent price table was compared");
        return;
    };
    let path = std::path::Path::new(&folder).join("prices.json");
    let text = std::fs::read_to_string(&path).expect("PRICE_SAMPLES names a folder with prices.json");
    let table: serde_json::Value = serde_json::from_str(&text).expect("prices.json is JSON");
    let models = table["models"]
        .as_array()
        .or(table.as_array())
        .expect("a list of models");
    let (mut agree, mut differ, mut unknown) = (0, Vec::new(), 0);
    for model in models {
        let (provider, name) = (
            model["provider"].as_str().unwrap(),
            model["model"].as_str().unwrap(),
        );
        if !matches!(provider, "openai" | "anthropic") || model["mode"] != "chat" {
            continue;
        }
        let rate = &model["rates"][0];
        let (Some(input), Some(output)) = (rate["input"].as_u64(), rate["output"].as_u64()) else {
            continue;
        };
        let expected = i128::from(input * 1_000 + output * 100);
        match picos(
            PriceQuery::new(name).provider(provider),
            &TokenCounts::new(1_000, 100),
        ) {
            None => unknown += 1,
            Some(cost) if cost == expected => agree += 1,
            Some(cost) => differ.push(format!("{provider}/{name}: {cost} instead of {expected}")),
        }
    }
    eprintln!(
        "{agree} models agree, {unknown} are not in the bundled table, {} differ: {differ:#?}",
        differ.len()
    );
    assert!(agree >= 20, "too few models were compared");
    assert!(differ.len() * 10 <= agree, "the tables differ: {differ:#?}");
}
