//! How a limit counts.

use crate::gcra::Gcra;
use std::time::Duration;

/// One second.
pub const SECOND: Duration = Duration::from_secs(1);
/// Sixty seconds.
pub const MINUTE: Duration = Duration::from_secs(60);
/// Sixty minutes.
pub const HOUR: Duration = Duration::from_secs(60 * 60);
/// Twenty-four hours, whatever the calendar says.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a limit counts. Today there is the token bucket alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// A token bucket: bursts up to its capacity, the refill rate in the long run.
    Bucket(Bucket),
}

impl Algorithm {
    pub(crate) fn compile(self) -> Result<Gcra, &'static str> {
        let Self::Bucket(bucket) = self;
        Gcra::new(bucket.capacity, bucket.refill, bucket.window)
    }
}

impl From<Bucket> for Algorithm {
    fn from(bucket: Bucket) -> Self {
        Self::Bucket(bucket)
    }
}

/// A token bucket that holds `capacity` units, the largest burst. Say next how it is refilled.
///
/// ```
/// use tower_ai_ratelimit::{Bucket, SECOND, bucket};
///
/// let free: Bucket = bucket(20).refill(2).per(SECOND);
/// assert_eq!((free.capacity(), free.refill(), free.window()), (20, 2, SECOND));
/// ```
///
/// Without a refill it is no limit:
///
/// ```compile_fail
/// use tower_ai_ratelimit::{Limits, bucket};
///
/// let limits = Limits::per_tenant().requests("rpm", bucket(20));
/// ```
pub const fn bucket(capacity: u64) -> BucketOf {
    BucketOf { capacity }
}

/// A bucket whose capacity is known; made by [`bucket`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a bucket needs a refill: `.refill(2).per(SECOND)`"]
pub struct BucketOf {
    capacity: u64,
}

impl BucketOf {
    /// So many units come back in each window, at an even pace. Say next how long a window is.
    pub const fn refill(self, units: u64) -> Refilling {
        Refilling {
            capacity: self.capacity,
            refill: units,
        }
    }
}

/// A bucket whose window is not known yet; made by [`BucketOf::refill`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a refill needs a window: `.per(SECOND)`"]
pub struct Refilling {
    capacity: u64,
    refill: u64,
}

impl Refilling {
    /// The window in which the refill comes.
    pub const fn per(self, window: Duration) -> Bucket {
        Bucket {
            capacity: self.capacity,
            refill: self.refill,
            window,
        }
    }
}

/// A token bucket: `capacity` units at once, `refill` units in each `window` after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    capacity: u64,
    refill: u64,
    window: Duration,
}

impl Bucket {
    /// The most it holds: the burst.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units that come back in each window.
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// The window in which the refill comes.
    pub const fn window(&self) -> Duration {
        self.window
    }
}
