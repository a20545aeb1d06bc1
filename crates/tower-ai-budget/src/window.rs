//! Calendar windows: which one an instant lies in, and when the next begins. Pure functions of `now`.

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, Time},
    tz::{AmbiguousOffset, TimeZone},
};
use std::{
    fmt,
    time::{Duration, SystemTime},
};
use tower_ai_core::ConfigError;

/// How long a window is. Later: rolling windows, and none (a prepaid wallet).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From Monday's midnight to the next.
    Week,
    /// From the first midnight of a month to that of the next.
    Month,
}

impl Period {
    /// The first day of the period that has `day` in it.
    fn first(self, day: Date) -> Date {
        match self {
            Self::Day => day,
            Self::Week => day.saturating_sub(i64::from(day.weekday().to_monday_zero_offset()).days()),
            Self::Month => day.first_of_month(),
        }
    }

    /// The first day of the period after the one that begins on `first`.
    fn next(self, first: Date) -> Date {
        match self {
            Self::Day => first.saturating_add(1.day()),
            Self::Week => first.saturating_add(7.days()),
            Self::Month => first.saturating_add(1.month()),
        }
    }

    /// `daily`, `weekly`, `monthly`: for messages.
    pub const fn adjective(self) -> &'static str {
        match self {
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
        }
    }
}

/// A calendar that cuts time into days, weeks or months of one time zone.
///
/// A day is 23 or 25 hours long when clocks are set. Where midnight does not exist, the day begins with the first
/// instant that has its date; where midnight comes twice, with the first; a day that a zone skips has no window. Every
/// instant lies in exactly one window.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tower_ai_budget::{Period, Window};
///
/// let day = Window::new(Period::Day, "Asia/Beirut").unwrap();
/// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_547_200); // 2025-12-01 00:00 UTC
/// let today = day.at(now);
/// assert_eq!(today.to_string(), "2025-12-02T00:00:00+02:00[Asia/Beirut]"); // when it resets
/// assert_eq!(today.reset_after(now), Duration::from_secs(22 * 3600));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    period: Period,
    zone: TimeZone,
}

impl Window {
    /// Windows of this length in a zone of the IANA time zone database, such as `UTC` or `Asia/Beirut`.
    ///
    /// # Errors
    /// [`ConfigError`] when there is no such zone.
    pub fn new(period: Period, zone: &str) -> Result<Self, ConfigError> {
        match TimeZone::get(zone) {
            Ok(zone) => Ok(Self { period, zone }),
            Err(_) => {
                let message = format!("there is no time zone \"{zone}\"; write one such as \"Asia/Beirut\"");
                Err(ConfigError::new("zone", message))
            }
        }
    }

    /// How long a window is.
    pub fn period(&self) -> Period {
        self.period
    }

    /// The window that `now` lies in.
    pub fn at(&self, now: SystemTime) -> Span {
        let now = timestamp(now);
        let mut first = self.period.first(self.zone.to_datetime(now).date());
        let mut start = self.beginning(first);
        loop {
            let next = self.period.next(first);
            let end = self.beginning(next);
            // The date on the clock may lie before the window that has begun (a clock set back over midnight), and the
            // window of a skipped day is empty: the next one is meant.
            if now < end || next == first {
                return Span {
                    start: system_time(start),
                    end: system_time(end),
                    zone: self.zone.clone(),
                };
            }
            (first, start) = (next, end);
        }
    }

    /// The first instant at which a clock in the zone shows this date, or a later one if the zone skips it.
    fn beginning(&self, date: Date) -> Timestamp {
        let midnight = date.to_datetime(Time::MIN);
        let (offset, skipped) = match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset, false),
            AmbiguousOffset::Fold { before, .. } => (before, false),
            AmbiguousOffset::Gap { after, .. } => (after, true),
        };
        let Ok(instant) = offset.to_timestamp(midnight) else {
            return Timestamp::MAX;
        };
        // In a gap, that instant is before the clock jumps over midnight: the day begins with the jump.
        let jump = || self.zone.following(instant).next().map(|jump| jump.timestamp());
        if skipped {
            jump().unwrap_or(instant)
        } else {
            instant
        }
    }
}

/// One window: from `start`, which is in it, to `end`, which is not.
///
/// Prints when it resets, as an instant of its zone. What is printed and what is obeyed come from this one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its first instant.
    pub start: SystemTime,
    /// The first instant of the next window.
    pub end: SystemTime,
    zone: TimeZone,
}

impl Span {
    /// Time until the next window begins.
    pub fn reset_after(&self, now: SystemTime) -> Duration {
        self.end.duration_since(now).unwrap_or_default()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = timestamp(self.end).to_zoned_datetime(self.zone.clone());
        end.fmt(f)
    }
}

/// A clock that is off by thousands of years is taken to be at the end of the calendar.
fn timestamp(time: SystemTime) -> Timestamp {
    match Timestamp::try_from(time) {
        Ok(timestamp) => timestamp,
        Err(_) if time < SystemTime::UNIX_EPOCH => Timestamp::MIN,
        Err(_) => Timestamp::MAX,
    }
}

fn system_time(timestamp: Timestamp) -> SystemTime {
    SystemTime::try_from(timestamp).unwrap_or(SystemTime::UNIX_EPOCH)
}
