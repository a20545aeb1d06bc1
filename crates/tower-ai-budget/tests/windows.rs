//! Calendar windows where clocks are odd.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use jiff::Timestamp;
use proptest::prelude::*;
use std::time::{Duration, SystemTime};
use tower_ai_budget::{Period, Span, Window};

const NS: Duration = Duration::from_nanos(1);

fn utc(instant: &str) -> SystemTime {
    instant.parse::<Timestamp>().unwrap().try_into().unwrap()
}

fn day(zone: &str, instant: &str) -> Span {
    Window::new(Period::Day, zone).unwrap().at(utc(instant))
}

fn hours(span: &Span) -> f64 {
    span.end.duration_since(span.start).unwrap().as_secs_f64() / 3600.0
}

#[test]
fn a_day_is_from_midnight_to_midnight_and_midnight_belongs_to_the_new_one() {
    let window = Window::new(Period::Day, "UTC").unwrap();
    let midnight = utc("2025-12-02T00:00:00Z");
    assert_eq!(window.at(midnight - NS).end, midnight);
    assert_eq!(window.at(midnight).start, midnight);
    assert_eq!(window.at(midnight - NS).reset_after(midnight - NS), NS);
}

#[test]
fn a_day_starts_at_local_midnight_not_at_that_of_utc() {
    let tokyo = day("Asia/Tokyo", "2025-12-01T14:59:59Z");
    assert_eq!(tokyo.end, utc("2025-12-01T15:00:00Z"));
    assert_eq!(tokyo.to_string(), "2025-12-02T00:00:00+09:00[Asia/Tokyo]");
}

#[test]
fn where_midnight_does_not_exist_the_day_starts_when_the_clock_jumps_over_it() {
    for (zone, before, start) in [
        ("Asia/Beirut", "2025-03-29T21:59:59Z", "2025-03-29T22:00:00Z"),
        ("America/Santiago", "2025-09-07T03:59:59Z", "2025-09-07T04:00:00Z"),
        // Half of the jump lies before midnight: the day starts at 00:30.
        ("America/Toronto", "1919-03-31T04:29:59Z", "1919-03-31T04:30:00Z"),
    ] {
        assert_eq!(day(zone, before).end, utc(start), "{zone}");
        let short = day(zone, start);
        assert_eq!(short.start, utc(start), "{zone}");
        assert!(hours(&short) < 24.0, "{zone}");
    }
    assert_eq!(hours(&day("Asia/Beirut", "2025-03-30T12:00:00Z")), 23.0);
    assert_eq!(
        day("Asia/Beirut", "2025-03-29T12:00:00Z").to_string(),
        "2025-03-30T01:00:00+03:00[Asia/Beirut]"
    );
}

#[test]
fn where_midnight_comes_twice_the_day_starts_once() {
    // Havana: at 01:00 it is 00:00 again.
    let first = day("America/Havana", "2025-11-02T04:00:00Z");
    let again = day("America/Havana", "2025-11-02T05:00:00Z");
    assert_eq!(first.start, utc("2025-11-02T04:00:00Z"));
    assert_eq!(again, first);
    assert_eq!(hours(&first), 25.0);
}

#[test]
fn an_hour_that_comes_twice_before_midnight_is_in_the_old_day_both_times() {
    // Beirut and Santiago: at 24:00 it is 23:00 again.
    for (zone, instant) in [
        ("Asia/Beirut", "2025-10-25T12:00:00Z"),
        ("America/Santiago", "2025-04-05T12:00:00Z"),
    ] {
        assert_eq!(hours(&day(zone, instant)), 25.0, "{zone}");
    }
}

#[test]
fn a_clock_that_goes_back_over_midnight_does_not_bring_yesterday_back() {
    // St. John's, 2006: one minute of Sunday, then an hour of Saturday again, then the rest of Sunday.
    let sunday = day("America/St_Johns", "2006-10-29T02:30:30Z");
    let saturday_on_the_clock = day("America/St_Johns", "2006-10-29T03:00:00Z");
    assert_eq!(sunday.start, utc("2006-10-29T02:30:00Z"));
    assert_eq!(saturday_on_the_clock, sunday);
}

#[test]
fn a_day_that_a_zone_skips_has_no_window() {
    // Apia had no 2011-12-30.
    let eve = day("Pacific/Apia", "2011-12-30T09:59:59Z");
    assert_eq!(eve.to_string(), "2011-12-31T00:00:00+14:00[Pacific/Apia]");
    assert_eq!(hours(&eve), 24.0);
    assert_eq!(day("Pacific/Apia", "2011-12-30T10:00:00Z").start, eve.end);
}

#[test]
fn a_week_starts_on_monday_and_a_month_on_its_first() {
    let now = utc("2026-03-01T12:00:00Z"); // a Sunday
    let week = Window::new(Period::Week, "UTC").unwrap().at(now);
    assert_eq!(
        (week.start, week.end),
        (utc("2026-02-23T00:00:00Z"), utc("2026-03-02T00:00:00Z"))
    );
    let month = Window::new(Period::Month, "UTC")
        .unwrap()
        .at(now - NS * 1_000_000_000 * 86_400);
    assert_eq!(
        (month.start, month.end),
        (utc("2026-02-01T00:00:00Z"), utc("2026-03-01T00:00:00Z"))
    );
}

#[test]
fn a_clock_beyond_the_calendar_does_no_harm() {
    let window = Window::new(Period::Month, "Asia/Beirut").unwrap();
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(400_000_000_000);
    assert!(window.at(far).reset_after(far).is_zero());
    assert!(
        !window
            .at(SystemTime::UNIX_EPOCH - Duration::from_secs(400_000_000_000))
            .to_string()
            .is_empty()
    );
}

#[test]
fn a_zone_that_does_not_exist_is_an_error() {
    let error = Window::new(Period::Day, "Asia/Byrut").unwrap_err();
    assert_eq!(error.path(), "zone");
    assert!(error.to_string().contains("Asia/Byrut"), "{error}");
}

proptest! {
    /// Windows touch and do not overlap, in every zone and also where its clocks are set.
    #[test]
    fn every_instant_is_in_exactly_one_window(
        zone in proptest::sample::select(jiff::tz::db().available().map(|name| name.to_string()).collect::<Vec<_>>()),
        seconds in -2_500_000_000i64..4_102_444_800,
        period in proptest::sample::select(vec![Period::Day, Period::Week, Period::Month]),
        near_a_jump in any::<bool>(),
        off in -90_000i64..90_000,
    ) {
        let Ok(window) = Window::new(period, &zone) else { return Ok(()) }; // a leap second list or the like
        let mut at = Timestamp::from_second(seconds).unwrap();
        if near_a_jump {
            let tz = jiff::tz::TimeZone::get(&zone).unwrap();
            if let Some(jump) = tz.following(at).next() {
                at = Timestamp::from_second(jump.timestamp().as_second() + off).unwrap();
            }
        }
        let now = SystemTime::try_from(at).unwrap();
        let span = window.at(now);
        prop_assert!(span.start <= now && now < span.end, "{zone} {at}: {span:?}");
        prop_assert_eq!(&window.at(span.start), &span, "{} {}", &zone, at);
        prop_assert_eq!(&window.at(span.end - NS), &span, "{} {}", &zone, at);
        prop_assert_eq!(window.at(span.end).start, span.end, "{} {}", &zone, at);
        prop_assert_eq!(window.at(span.start - NS).end, span.start, "{} {}", &zone, at);
    }
}
