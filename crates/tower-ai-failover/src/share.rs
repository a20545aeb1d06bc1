//! How the time of a call is shared out among its attempts.

use std::time::Duration;
use tokio::time::Instant;

/// The longest a call may take if nothing else is said, streaming included.
pub(crate) const DEFAULT_DEADLINE: Duration = Duration::from_secs(540);
/// The longest a call may wait between attempts, all waits together.
pub(crate) const DEFAULT_WAITING: Duration = Duration::from_secs(30);
/// Kept for the streaming of the answer once an attempt has started it.
const STREAM_RESERVE: Duration = Duration::from_secs(60);
/// No attempt is worth making in less.
const LEAST_SHARE: Duration = Duration::from_secs(5);

/// The time of one call.
///
/// An attempt's share is what is left, without what is kept for streaming and for waiting, divided by the candidates that
/// remain: of 540 s, three candidates get 150 s; if the first dies after 2 s, the second gets 224 s. The figures belong to a
/// deadline of 540 s; a shorter one scales them down, so that a hung candidate leaves time for the next one there too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) end: Instant,
    reserve: Duration,
    least: Duration,
    waiting: Duration,
}

impl Time {
    /// The time from `now` to `end`, of which at most `waiting` is spent between attempts.
    pub(crate) fn new(now: Instant, end: Instant, waiting: Duration) -> Self {
        let total = end.saturating_duration_since(now);
        let scaled = |figure: Duration| {
            if total >= DEFAULT_DEADLINE {
                figure
            } else {
                figure.mul_f64(total.as_secs_f64() / DEFAULT_DEADLINE.as_secs_f64())
            }
        };
        Self {
            end,
            reserve: scaled(STREAM_RESERVE),
            least: scaled(LEAST_SHARE),
            waiting: scaled(waiting),
        }
    }

    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.end.saturating_duration_since(now)
    }

    /// How long the next attempt may take to start its answer, if `candidates` remain with it. `None`: too little is left.
    pub(crate) fn share(&self, now: Instant, waited: Duration, candidates: u32) -> Option<Duration> {
        let left = self.left(now);
        if left.is_zero() || left < self.least {
            return None;
        }
        let kept = self.reserve + self.waiting.saturating_sub(waited);
        let share = left.saturating_sub(kept) / candidates.max(1);
        Some(share.clamp(self.least, left))
    }

    /// The longest that the next wait may take: what is left of all waiting, and an attempt must still be possible then.
    pub(crate) fn longest_wait(&self, now: Instant, waited: Duration) -> Duration {
        let left = self.left(now).saturating_sub(self.reserve + self.least);
        self.waiting.saturating_sub(waited).min(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn time(total: Duration) -> (Time, Instant) {
        let now = Instant::now();
        (Time::new(now, now + total, DEFAULT_WAITING), now)
    }

    #[test]
    fn of_540_s_three_candidates_get_150_s() {
        let (time, now) = time(540 * SECOND);
        assert_eq!(time.share(now, Duration::ZERO, 3), Some(150 * SECOND));
        assert_eq!(time.share(now, Duration::ZERO, 1), Some(450 * SECOND));
    }

    #[test]
    fn unused_time_rolls_on() {
        let (time, now) = time(540 * SECOND);
        assert_eq!(
            time.share(now + 2 * SECOND, Duration::ZERO, 2),
            Some(224 * SECOND)
        );
    }

    #[test]
    fn waiting_that_was_done_is_kept_no_longer() {
        let (time, now) = time(540 * SECOND);
        assert_eq!(time.share(now + 20 * SECOND, 20 * SECOND, 1), Some(450 * SECOND));
    }

    #[test]
    fn late_shares_are_small_and_then_none() {
        let (time, now) = time(540 * SECOND);
        assert_eq!(
            time.share(now + 470 * SECOND, Duration::ZERO, 2),
            Some(5 * SECOND)
        );
        assert_eq!(
            time.share(now + 535 * SECOND, Duration::ZERO, 2),
            Some(5 * SECOND)
        );
        assert_eq!(time.share(now + 536 * SECOND, Duration::ZERO, 1), None);
        assert_eq!(time.share(now + 600 * SECOND, Duration::ZERO, 1), None);
    }

    #[test]
    fn a_short_deadline_leaves_time_for_the_next_candidate_too() {
        let (time, now) = time(SECOND * 54 / 10);
        let share = time.share(now, Duration::ZERO, 3).unwrap();
        assert!(
            share.abs_diff(SECOND * 15 / 10) < Duration::from_micros(1),
            "{share:?}"
        );
        assert!(time.share(now + share, Duration::ZERO, 2).unwrap() >= share);
    }

    #[test]
    fn without_any_time_there_is_no_share() {
        let (time, now) = time(Duration::ZERO);
        assert_eq!(time.share(now, Duration::ZERO, 1), None);
        assert_eq!(time.longest_wait(now, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_wait_leaves_time_for_an_attempt_and_its_stream() {
        let (time, now) = time(540 * SECOND);
        assert_eq!(time.longest_wait(now, 10 * SECOND), 20 * SECOND);
        assert_eq!(time.longest_wait(now + 470 * SECOND, Duration::ZERO), 5 * SECOND);
        assert_eq!(
            time.longest_wait(now + 480 * SECOND, Duration::ZERO),
            Duration::ZERO
        );
    }

    proptest! {
        #[test]
        fn hung_candidates_never_take_more_than_there_is(total_ms in 1u64..2_000_000, candidates in 1u32..=5) {
            let (time, start) = time(Duration::from_millis(total_ms));
            let mut now = start;
            for remaining in (1..=candidates).rev() {
                let Some(share) = time.share(now, Duration::ZERO, remaining) else { panic!("no time for the next") };
                now += share;
            }
            prop_assert!(now <= time.end);
        }
    }
}
