//! Which candidate is next.

use crate::backoff::{backoff, rest, spread};
use std::time::Duration;
use tokio::time::Instant;

/// The most attempts of a call, if nothing else is said.
pub(crate) const DEFAULT_ATTEMPTS: u32 = 5;

/// What the candidates of one call have gone through, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Tries {
    tries: Vec<Try>,
    made: u32,
    most: u32,
    waited: Duration,
}

#[derive(Clone, Debug, Default)]
struct Try {
    times: u32,
    /// Since when, and for how long, it is to be left alone.
    rests: Option<(Instant, Duration)>,
    /// Not in this call.
    is_out: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// Try this candidate.
    Try(usize),
    /// Wait, then try this candidate.
    Wait(usize, Duration),
    /// No candidate is left that could be tried in time.
    Nobody,
}

/// What a failure means for the candidate in this call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Again {
    /// It may be tried again, after a backoff.
    Later,
    /// It said, or showed, that it wants to be left alone.
    AfterRest(Option<Duration>),
    /// Not in this call.
    Never,
}

impl Tries {
    pub(crate) fn new(candidates: usize, most: u32) -> Self {
        Self {
            tries: vec![Try::default(); candidates],
            made: 0,
            most,
            waited: Duration::ZERO,
        }
    }

    /// Untried candidates come first, in order and without a wait. After them those that were tried least, and of these
    /// the one that may be tried soonest.
    pub(crate) fn next(&self, now: Instant, longest_wait: Duration, chance: f64) -> Next {
        if self.made >= self.most {
            return Next::Nobody;
        }
        let untried = self
            .tries
            .iter()
            .position(|tried| tried.times == 0 && !tried.is_out);
        if let Some(candidate) = untried {
            return Next::Try(candidate);
        }
        let soonest = self.tries.iter().enumerate().filter(|(_, tried)| !tried.is_out);
        let soonest = soonest.filter_map(|(candidate, tried)| {
            let wait = tried.wait(now, longest_wait, chance)?;
            Some((tried.times, wait, candidate))
        });
        match soonest.min() {
            Some((_, wait, candidate)) => Next::Wait(candidate, wait),
            None => Next::Nobody,
        }
    }

    /// How many attempts the rest of the time is for, the next one included.
    pub(crate) fn remaining(&self) -> u32 {
        let untried = self
            .tries
            .iter()
            .filter(|tried| tried.times == 0 && !tried.is_out)
            .count();
        let candidates = if untried > 0 { untried } else { self.tries.len() };
        (self.most - self.made).min(candidates as u32)
    }

    /// Counts from 1.
    pub(crate) fn start(&mut self, candidate: usize) -> u32 {
        self.tries[candidate].times += 1;
        self.made += 1;
        self.made
    }

    pub(crate) fn failed(&mut self, candidate: usize, now: Instant, again: Again) {
        let tried = &mut self.tries[candidate];
        match again {
            Again::Later => {}
            Again::AfterRest(hint) => tried.rests = Some((now, rest(hint, tried.times))),
            Again::Never => tried.is_out = true,
        }
    }

    pub(crate) fn wait(&mut self, wait: Duration) {
        self.waited += wait;
    }

    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// When the first of those that rest may be tried again: what a caller is told.
    pub(crate) fn shortest_rest(&self, now: Instant) -> Option<Duration> {
        self.tries.iter().filter_map(|tried| tried.rest_left(now)).min()
    }
}

impl Try {
    /// The wait before this candidate is tried again; `None` when it does not fit.
    fn wait(&self, now: Instant, longest: Duration, chance: f64) -> Option<Duration> {
        match self.rest_left(now) {
            None => Some(backoff(self.times, chance).min(longest)),
            Some(rest) => (rest <= longest).then(|| spread(rest, chance).min(longest)),
        }
    }

    fn rest_left(&self, now: Instant) -> Option<Duration> {
        let (since, rest) = self.rests?;
        let left = rest.saturating_sub(now.saturating_duration_since(since));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const WAITING: Duration = Duration::from_secs(30);

    fn failed(tries: &mut Tries, candidate: usize, again: Again) -> Instant {
        let now = Instant::now();
        tries.start(candidate);
        tries.failed(candidate, now, again);
        now
    }

    #[test]
    fn candidates_are_tried_in_order_without_a_wait() {
        let mut tries = Tries::new(3, 5);
        for candidate in 0..3 {
            assert_eq!(tries.next(Instant::now(), WAITING, 0.5), Next::Try(candidate));
            failed(&mut tries, candidate, Again::Later);
        }
    }

    #[test]
    fn a_second_round_backs_off_before_each_candidate() {
        let mut tries = Tries::new(2, 5);
        failed(&mut tries, 0, Again::Later);
        let now = failed(&mut tries, 1, Again::Later);
        assert_eq!(tries.next(now, WAITING, 0.5), Next::Wait(0, SECOND / 4));
        let now = failed(&mut tries, 0, Again::Later);
        assert_eq!(tries.next(now, WAITING, 0.5), Next::Wait(1, SECOND / 4));
        let now = failed(&mut tries, 1, Again::Later);
        assert_eq!(tries.next(now, WAITING, 0.5), Next::Wait(0, SECOND / 2));
    }

    #[test]
    fn there_are_at_most_5_attempts_in_all() {
        let mut tries = Tries::new(2, 5);
        for n in 0..5 {
            assert_ne!(tries.next(Instant::now(), WAITING, 0.5), Next::Nobody);
            failed(&mut tries, n % 2, Again::Later);
        }
        assert_eq!(tries.next(Instant::now(), WAITING, 0.5), Next::Nobody);
    }

    #[test]
    fn a_throttled_candidate_is_not_retried_at_once() {
        let mut tries = Tries::new(1, 5);
        let now = failed(&mut tries, 0, Again::AfterRest(None));
        assert_eq!(tries.next(now, WAITING, 0.0), Next::Wait(0, SECOND));
        let now = failed(&mut tries, 0, Again::AfterRest(None));
        assert_eq!(tries.next(now, WAITING, 0.0), Next::Wait(0, 2 * SECOND));
    }

    #[test]
    fn a_told_wait_of_20_s_is_waited_for_once_and_spread_up_to_24_s() {
        let mut tries = Tries::new(1, 5);
        let now = failed(&mut tries, 0, Again::AfterRest(Some(20 * SECOND)));
        assert_eq!(tries.next(now, WAITING, 0.0), Next::Wait(0, 20 * SECOND));
        assert_eq!(tries.next(now, WAITING, 1.0), Next::Wait(0, 24 * SECOND));
        assert_eq!(
            tries.next(now + 5 * SECOND, WAITING, 0.0),
            Next::Wait(0, 15 * SECOND)
        );
    }

    #[test]
    fn a_told_wait_that_does_not_fit_is_not_waited_for() {
        let mut tries = Tries::new(1, 5);
        let now = failed(&mut tries, 0, Again::AfterRest(Some(31 * SECOND)));
        assert_eq!(tries.next(now, WAITING, 0.5), Next::Nobody);
        assert_eq!(tries.shortest_rest(now + SECOND), Some(30 * SECOND));
    }

    #[test]
    fn a_spread_never_makes_a_wait_too_long_that_fits() {
        let mut tries = Tries::new(1, 5);
        let now = failed(&mut tries, 0, Again::AfterRest(Some(29 * SECOND)));
        assert_eq!(tries.next(now, WAITING, 1.0), Next::Wait(0, WAITING));
    }

    #[test]
    fn another_that_failed_otherwise_is_tried_before_one_that_rests() {
        let mut tries = Tries::new(2, 5);
        failed(&mut tries, 0, Again::AfterRest(Some(20 * SECOND)));
        let now = failed(&mut tries, 1, Again::Later);
        assert_eq!(tries.next(now, WAITING, 0.0), Next::Wait(1, Duration::ZERO));
    }

    #[test]
    fn what_is_out_is_out_for_this_call() {
        let mut tries = Tries::new(1, 5);
        let now = failed(&mut tries, 0, Again::Never);
        assert_eq!(tries.next(now, WAITING, 0.5), Next::Nobody);
    }

    #[test]
    fn time_is_shared_among_the_untried_then_among_all() {
        let mut tries = Tries::new(3, 5);
        assert_eq!(tries.remaining(), 3);
        failed(&mut tries, 0, Again::Later);
        assert_eq!(tries.remaining(), 2);
        failed(&mut tries, 1, Again::Later);
        failed(&mut tries, 2, Again::Later);
        assert_eq!(tries.remaining(), 2, "two attempts are left of five");
    }

    proptest! {
        #[test]
        fn waits_and_attempts_stay_within_their_limits(
            candidates in 1usize..=4,
            steps in prop::collection::vec((0u8..4, 0u64..40, 0.0f64..1.0), 0..40),
        ) {
            let mut now = Instant::now();
            let mut tries = Tries::new(candidates, 5);
            let mut made = 0;
            for (kind, hint_s, chance) in steps {
                let longest = WAITING - tries.waited();
                let candidate = match tries.next(now, longest, chance) {
                    Next::Try(candidate) => candidate,
                    Next::Wait(candidate, wait) => {
                        tries.wait(wait);
                        now += wait;
                        candidate
                    }
                    Next::Nobody => break,
                };
                prop_assert!(candidate < candidates);
                made += 1;
                prop_assert_eq!(tries.start(candidate), made);
                let again = match kind {
                    0 => Again::Later,
                    1 => Again::AfterRest(None),
                    2 => Again::AfterRest(Some(SECOND * hint_s as u32)),
                    _ => Again::Never,
                };
                tries.failed(candidate, now, again);
                now += Duration::from_millis(hint_s);
            }
            prop_assert!(made <= 5 && tries.waited() <= WAITING);
        }
    }
}
