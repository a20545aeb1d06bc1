//! The token bucket as exact arithmetic: pure functions of `now`, no clock, no rounding in the caller's favour.
//!
//! A bucket's whole state is one instant, [`Tat`]: when it is full again (the "theoretical arrival time" of the
//! generic cell rate algorithm). The rate is a reduced fraction of units per nanosecond, and the instant keeps its
//! fraction of a nanosecond, so that nothing is lost however often it is changed.

use std::time::Duration;

/// The largest capacity: 15 digits are what a structured header field may carry (RFC 9651).
pub(crate) const MAX_CAPACITY: u64 = 999_999_999_999_999;

/// The longest time to fill, some 36 years. It keeps every product below 2^126.
const MAX_FILL_NS: u128 = 1 << 60;

/// A bucket of `capacity` units that gains `units` in `nanos` nanoseconds, at an even pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    capacity: u64,
    /// Numerator and denominator of the rate, without a common factor.
    units: u64,
    nanos: u64,
}

/// When a bucket is full again, in nanoseconds of the clock that gives `now`, plus `part` of the next one, counted
/// in the numerator of the bucket's rate. The past means "full", so the default is a full bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tat {
    pub(crate) nanos: u64,
    pub(crate) part: u64,
}

impl Tat {
    /// Whether the bucket is full: then it needs no memory.
    pub(crate) fn is_full(self, now: u64) -> bool {
        self <= Self { nanos: now, part: 0 }
    }

    /// The whole nanosecond from which on the bucket is full.
    pub(crate) fn ceil(self) -> u64 {
        self.nanos + u64::from(self.part > 0)
    }
}

/// Why units cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// They can in so many nanoseconds, and not a nanosecond earlier.
    Wait(u64),
    /// More than the bucket ever holds.
    Never,
}

impl Gcra {
    /// A bucket of `capacity`, refilled by `refill` in each `window`.
    ///
    /// # Errors
    /// What is wrong with the figures.
    pub(crate) fn new(capacity: u64, refill: u64, window: Duration) -> Result<Self, &'static str> {
        if capacity == 0 {
            return Err("capacity is zero");
        }
        if capacity > MAX_CAPACITY {
            return Err("capacity is above 999,999,999,999,999");
        }
        if refill == 0 {
            return Err("refill is zero");
        }
        if window.is_zero() {
            return Err("window is zero");
        }
        let window = u64::try_from(window.as_nanos()).map_err(|_| "window is above 584 years")?;
        let common = gcd(refill, window);
        let gcra = Self {
            capacity,
            units: refill / common,
            nanos: window / common,
        };
        if gcra.scaled(capacity) > MAX_FILL_NS * u128::from(gcra.units) {
            return Err("it takes longer than 36 years to fill");
        }
        Ok(gcra)
    }

    /// Takes `n` units; the bucket's new state. Nothing is never short, not even of a bucket in debt.
    ///
    /// # Errors
    /// [`Short`], and nothing is taken.
    pub(crate) fn take(&self, tat: Tat, n: u64, now: u64) -> Result<Tat, Short> {
        if n == 0 {
            return Ok(tat);
        }
        if n > self.capacity {
            return Err(Short::Never);
        }
        let wanted = self.used(tat, now) + self.scaled(n);
        match wanted.checked_sub(self.scaled(self.capacity)) {
            None | Some(0) => Ok(self.tat(wanted, now)),
            Some(missing) => Err(Short::Wait(self.time(missing))),
        }
    }

    /// Takes `n` units without asking: what was used was used. The debt is at most one capacity, so that one wrong
    /// estimate locks nobody out for longer than twice the time to fill.
    pub(crate) fn force(&self, tat: Tat, n: u64, now: u64) -> Tat {
        let n = n.min(2 * self.capacity);
        let used = self.used(tat, now) + self.scaled(n);
        self.tat(used.min(self.deepest()), now)
    }

    /// Puts `n` units back, at most up to full: there is no credit.
    pub(crate) fn refund(&self, tat: Tat, n: u64, now: u64) -> Tat {
        let n = n.min(2 * self.capacity);
        self.tat(self.used(tat, now).saturating_sub(self.scaled(n)), now)
    }

    /// Whole units left; 0 in debt.
    pub(crate) fn remaining(&self, tat: Tat, now: u64) -> u64 {
        let left = self.scaled(self.capacity).saturating_sub(self.used(tat, now));
        to_u64(left / u128::from(self.nanos))
    }

    /// Nanoseconds until the bucket is full, rounded up.
    pub(crate) fn reset_after(&self, tat: Tat, now: u64) -> u64 {
        self.time(self.used(tat, now))
    }

    /// Nanoseconds until one more whole unit is left than the `remaining` ones, rounded up, of a bucket that is
    /// full in `reset_after`; 0 when it is full.
    pub(crate) fn next_unit_after(&self, remaining: u64, reset_after: u64) -> u64 {
        let Some(others) = self.capacity.checked_sub(remaining + 1) else {
            return 0;
        };
        // Rounded down here, so that the difference is not too short.
        let others = to_u64(self.scaled(others) / u128::from(self.units));
        reset_after.saturating_sub(others)
    }

    /// The most it holds.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Nanoseconds in which an empty bucket fills, rounded up.
    pub(crate) fn fill_time(&self) -> u64 {
        self.time(self.scaled(self.capacity))
    }

    /// The state as one of this bucket. It may stem from a bucket of another rate, since plans change: then the time
    /// to fill carries over, within the debt that this bucket can have. The fraction was another's, and counts as a
    /// nanosecond at most.
    pub(crate) fn adopt(&self, tat: Tat, now: u64) -> Tat {
        let own = if tat.part < self.units {
            tat
        } else {
            Tat {
                nanos: tat.ceil(),
                part: 0,
            }
        };
        own.min(self.tat(self.deepest(), now))
    }

    /// What was taken and is not yet refilled, scaled by `nanos`.
    fn used(&self, tat: Tat, now: u64) -> u128 {
        match tat.nanos.checked_sub(now) {
            Some(ahead) => u128::from(ahead) * u128::from(self.units) + u128::from(tat.part),
            None => 0,
        }
    }

    fn tat(&self, used: u128, now: u64) -> Tat {
        let units = u128::from(self.units);
        Tat {
            nanos: now + to_u64(used / units),
            part: to_u64(used % units),
        }
    }

    /// Nanoseconds in which so much is refilled, rounded up.
    fn time(&self, scaled: u128) -> u64 {
        to_u64(scaled.div_ceil(u128::from(self.units)))
    }

    fn scaled(&self, n: u64) -> u128 {
        u128::from(n) * u128::from(self.nanos)
    }

    fn deepest(&self) -> u128 {
        2 * self.scaled(self.capacity)
    }
}

/// The figures are bounded in [`Gcra::new`] so that this is exact.
fn to_u64(value: u128) -> u64 {
    debug_assert!(value <= u128::from(u64::MAX));
    value as u64
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn free() -> Gcra {
        Gcra::new(20, 2, Duration::from_secs(1)).unwrap()
    }

    fn empty(gcra: &Gcra, now: u64) -> Tat {
        gcra.take(Tat::default(), gcra.capacity, now).unwrap()
    }

    #[test]
    fn the_burst_passes_at_once_and_the_rest_at_the_rate() {
        let gcra = free();
        let mut tat = Tat::default();
        for left in (0..20).rev() {
            tat = gcra.take(tat, 1, 0).unwrap();
            assert_eq!(gcra.remaining(tat, 0), left);
        }
        assert_eq!(gcra.take(tat, 1, 0), Err(Short::Wait(S / 2)));
        assert_eq!(gcra.take(tat, 1, S / 2 - 1), Err(Short::Wait(1)));
        assert!(gcra.take(tat, 1, S / 2).is_ok());
        assert_eq!(gcra.reset_after(tat, 0), 10 * S);
    }

    #[test]
    fn a_rate_that_does_not_divide_a_nanosecond_stays_exact() {
        // 1001 per second is one in 999,000.999 ns; after 1001 takes exactly a second has gone by.
        let gcra = Gcra::new(1, 1001, Duration::from_secs(1)).unwrap();
        let (mut tat, mut now) = (empty(&gcra, 0), 0);
        for _ in 0..1001 {
            let Err(Short::Wait(wait)) = gcra.take(tat, 1, now) else {
                panic!("not empty at {now}")
            };
            now += wait;
            tat = gcra.take(tat, 1, now).unwrap();
        }
        assert!((S..S + 1001).contains(&now), "{now}");
    }

    #[test]
    fn more_than_the_capacity_can_never_be_taken() {
        assert_eq!(free().take(Tat::default(), 21, 0), Err(Short::Never));
    }

    #[test]
    fn debt_is_kept_but_never_exceeds_one_capacity() {
        let gcra = free();
        let tat = gcra.force(empty(&gcra, 0), 4, 0);
        assert_eq!(gcra.remaining(tat, 0), 0);
        assert_eq!(gcra.take(tat, 1, 0), Err(Short::Wait(5 * S / 2)));
        let deepest = gcra.force(tat, u64::MAX, 0);
        assert_eq!(gcra.reset_after(deepest, 0), 20 * S);
        assert_eq!(gcra.take(deepest, 0, 0), Ok(deepest), "nothing is never short");
    }

    #[test]
    fn a_refund_gives_no_credit() {
        let gcra = free();
        let tat = gcra.take(Tat::default(), 5, 0).unwrap();
        assert_eq!(gcra.remaining(gcra.refund(tat, 3, 0), 0), 18);
        assert!(gcra.refund(tat, u64::MAX, 0).is_full(0));
    }

    #[test]
    fn the_time_to_fill_carries_over_to_another_rate() {
        let (free, growth) = (free(), Gcra::new(500, 50, Duration::from_secs(1)).unwrap());
        let tat = growth.adopt(empty(&free, 0), 0);
        assert_eq!(growth.remaining(tat, 0), 0);
        assert_eq!(growth.remaining(tat, S), 50);
    }

    #[test]
    fn a_state_of_another_rate_is_within_the_own_debt() {
        let (free, daily) = (free(), Gcra::new(10, 10, Duration::from_secs(86_400)).unwrap());
        let tat = free.adopt(empty(&daily, 0), 0);
        assert_eq!(free.take(tat, 1, 0), Err(Short::Wait(21 * S / 2)));
        let foreign = Tat { nanos: 5, part: 7 };
        assert_eq!(free.adopt(foreign, 0), Tat { nanos: 6, part: 0 });
    }

    #[test]
    fn the_next_unit_is_told_rounded_up() {
        let gcra = free();
        let tat = gcra.take(Tat::default(), 2, 0).unwrap();
        let at = |now| gcra.next_unit_after(gcra.remaining(tat, now), gcra.reset_after(tat, now));
        assert_eq!(at(0), S / 2);
        assert_eq!(at(S / 4), S / 4);
        assert_eq!(at(S / 2), S / 2);
        assert_eq!(at(S), 0);
    }

    #[test]
    fn figures_that_cannot_work_are_refused() {
        let of = |capacity, refill, secs| Gcra::new(capacity, refill, Duration::from_secs(secs)).unwrap_err();
        assert_eq!(of(0, 1, 1), "capacity is zero");
        assert_eq!(of(1, 0, 1), "refill is zero");
        assert_eq!(of(1, 1, 0), "window is zero");
        assert_eq!(
            of(MAX_CAPACITY + 1, 1, 1),
            "capacity is above 999,999,999,999,999"
        );
        assert_eq!(of(1, 1, u64::MAX), "window is above 584 years");
        assert_eq!(of(1_000_000, 1, 86_400), "it takes longer than 36 years to fill");
    }

    fn any_gcra() -> impl Strategy<Value = Gcra> {
        let window = prop_oneof![Just(S), Just(60 * S), Just(86_400 * S), 1..100_000 * S];
        let capacity = prop_oneof![1..50u64, 1..=MAX_CAPACITY];
        let refill = prop_oneof![1..50u64, 1..=u64::MAX];
        (capacity, refill, window).prop_filter_map("fills in time", |(capacity, refill, window)| {
            Gcra::new(capacity, refill, Duration::from_nanos(window)).ok()
        })
    }

    /// The bucket as one would write it down: what is used, and since when.
    struct Model {
        gcra: Gcra,
        used: u128,
        at: u64,
    }

    impl Model {
        fn free_at(&mut self, now: u64) -> u128 {
            let refilled = u128::from(now - self.at) * u128::from(self.gcra.units);
            self.used = self.used.saturating_sub(refilled);
            self.at = now;
            (u128::from(self.gcra.capacity) * u128::from(self.gcra.nanos)).saturating_sub(self.used)
        }

        fn take(&mut self, n: u64, now: u64) -> bool {
            let wanted = u128::from(n) * u128::from(self.gcra.nanos);
            let fits = wanted <= self.free_at(now);
            self.used += if fits { wanted } else { 0 };
            fits
        }
    }

    /// A share of the capacity, and a pause as a share of the time to fill: small and large at every scale.
    fn ops() -> impl Strategy<Value = Vec<(u64, u64)>> {
        proptest::collection::vec((0..=1_100u64, 0..=300u64), 1..80)
    }

    fn share(of: u64, permille: u64) -> u64 {
        to_u64(u128::from(of) * u128::from(permille) / 1000)
    }

    proptest! {
        #[test]
        fn every_decision_equals_the_exact_model(gcra in any_gcra(), ops in ops()) {
            let (mut tat, mut now) = (Tat::default(), 0);
            let mut model = Model { gcra, used: 0, at: 0 };
            for (n, pause) in ops {
                now += share(gcra.fill_time(), pause);
                let n = share(gcra.capacity, n).max(1);
                let taken = gcra.take(tat, n, now);
                prop_assert_eq!(taken.is_ok(), model.take(n, now));
                tat = taken.unwrap_or(tat);
                prop_assert_eq!(gcra.adopt(tat, now), tat);
                let left = model.free_at(now) / u128::from(gcra.nanos);
                prop_assert_eq!(u128::from(gcra.remaining(tat, now)), left);
            }
        }

        #[test]
        fn waiting_exactly_the_told_time_admits(gcra in any_gcra(), ops in ops(), debt in any::<u64>()) {
            let (mut tat, mut now) = (gcra.force(Tat::default(), debt % gcra.capacity, 0), 0);
            for (n, pause) in ops {
                now += share(gcra.fill_time(), pause);
                let n = share(gcra.capacity, n).clamp(1, gcra.capacity);
                match gcra.take(tat, n, now) {
                    Ok(taken) => tat = taken,
                    Err(Short::Wait(wait)) => {
                        prop_assert!(wait > 0);
                        prop_assert_eq!(gcra.take(tat, n, now + wait - 1), Err(Short::Wait(1)));
                        prop_assert!(gcra.take(tat, n, now + wait).is_ok());
                    }
                    Err(Short::Never) => prop_assert!(false, "it fits an empty bucket"),
                }
            }
        }

        #[test]
        fn no_span_admits_more_than_the_capacity_and_the_rate(gcra in any_gcra(), ops in ops()) {
            let (mut tat, mut now, mut admitted) = (Tat::default(), 0, Vec::new());
            for (n, pause) in ops {
                now += share(gcra.fill_time(), pause);
                let n = share(gcra.capacity, n).max(1);
                if let Ok(taken) = gcra.take(tat, n, now) {
                    tat = taken;
                    admitted.push((now, u128::from(n)));
                }
            }
            for (first, &(start, _)) in admitted.iter().enumerate() {
                let mut sum = 0;
                for &(end, n) in &admitted[first..] {
                    sum += n;
                    let beyond = sum.saturating_sub(u128::from(gcra.capacity)) * u128::from(gcra.nanos);
                    prop_assert!(beyond <= u128::from(end - start) * u128::from(gcra.units));
                }
            }
        }

        #[test]
        fn a_correction_moves_what_is_used_by_the_difference(
            gcra in any_gcra(), reserved in 1..=1000u64, actual in 0..=1500u64,
        ) {
            let (reserved, actual) = (share(gcra.capacity, reserved).max(1), share(gcra.capacity, actual));
            let tat = gcra.take(Tat::default(), reserved, 7).unwrap();
            let corrected = match actual.checked_sub(reserved) {
                Some(more) => gcra.force(tat, more, 7),
                None => gcra.refund(tat, reserved - actual, 7),
            };
            prop_assert_eq!(corrected, gcra.force(Tat::default(), actual, 7));
        }
    }
}
