//! How long to leave an upstream alone, and the chance that spreads callers out.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);
/// For an upstream that said it has too much to do, and not for how long.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(15);
/// Callers that were told the same wait come back spread over so much more of it.
const SPREAD: f64 = 0.2;

/// The wait before an upstream that has failed `times` is tried again: exponential, with full jitter.
/// `chance` is from 0 to below 1.
pub(crate) fn backoff(times: u32, chance: f64) -> Duration {
    doubled(FIRST, LONGEST, times).mul_f64(chance)
}

/// How long an upstream rests that has throttled us `times`, when it said so, or else by our own rule.
pub(crate) fn rest(hint: Option<Duration>, times: u32) -> Duration {
    hint.unwrap_or_else(|| doubled(FIRST_REST, LONGEST_REST, times))
}

/// A wait that was told, spread out. Never shorter: who comes early is refused.
pub(crate) fn spread(wait: Duration, chance: f64) -> Duration {
    wait.saturating_add(wait.min(Duration::from_secs(3600)).mul_f64(SPREAD * chance))
}

fn doubled(first: Duration, longest: Duration, times: u32) -> Duration {
    let doublings = times.saturating_sub(1).min(16);
    (first * 2u32.pow(doublings)).min(longest)
}

/// A source of chance: splitmix64 (Steele, Lea, Flood 2014). Seeded, it repeats itself.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(crate) fn random() -> Self {
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// From 0 to below 1.
    pub(crate) fn next(&self) -> f64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64 // 53 bits: what a double holds exactly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_8_s() {
        let most: Vec<_> = (1..=6).map(|times| backoff(times, 1.0).as_millis()).collect();
        assert_eq!(most, [500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(backoff(3, 0.0), Duration::ZERO);
        assert_eq!(backoff(u32::MAX, 0.5), LONGEST / 2);
    }

    #[test]
    fn a_rest_is_the_one_that_was_told_or_doubles_up_to_15_s() {
        assert_eq!(
            rest(Some(Duration::from_millis(70)), 4),
            Duration::from_millis(70)
        );
        let own: Vec<_> = (1..=6).map(|times| rest(None, times).as_secs()).collect();
        assert_eq!(own, [1, 2, 4, 8, 15, 15]);
    }

    #[test]
    fn a_told_wait_is_spread_upward_by_a_fifth_at_most() {
        let told = Duration::from_secs(20);
        assert_eq!(spread(told, 0.0), told);
        assert_eq!(spread(told, 1.0), Duration::from_secs(24));
        assert!(spread(Duration::MAX, 0.9) == Duration::MAX);
    }

    #[test]
    fn chance_is_even_and_repeats_with_its_seed() {
        let (one, other) = (Chance::seeded(7), Chance::seeded(7));
        let draws: Vec<_> = (0..1000).map(|_| one.next()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert!(draws.into_iter().all(|draw| draw == other.next()));
        assert_ne!(Chance::random().next(), Chance::random().next());
    }
}
