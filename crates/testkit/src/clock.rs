//! Wall clocks that a test controls.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;
use tower_ai_core::WallClock;

/// A clock that shows `start` now and goes on as tokio's time does, also while that is paused.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// testkit::in_paused_time(async {
///     let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_547_200);
///     let clock = testkit::clock_from(start);
///     tokio::time::sleep(Duration::from_secs(86_400)).await;
///     assert_eq!(clock.now(), start + Duration::from_secs(86_400));
/// });
/// ```
pub fn clock_from(start: SystemTime) -> WallClock {
    let origin = Instant::now();
    WallClock::from_fn(move || start + origin.elapsed())
}

/// A clock that stands still until it is set. Clones are the same clock.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let hands = testkit::SetClock::at(SystemTime::UNIX_EPOCH);
/// let clock = hands.clock();
/// hands.advance(Duration::from_secs(60));
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct SetClock(Arc<Mutex<SystemTime>>);

impl SetClock {
    /// It is `time` now.
    pub fn at(time: SystemTime) -> Self {
        Self(Arc::new(Mutex::new(time)))
    }

    /// From now on it is `time`: later or earlier, as clocks are set.
    pub fn set(&self, time: SystemTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    /// Goes forward.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// The clock to hand to a layer.
    pub fn clock(&self) -> WallClock {
        let time = self.0.clone();
        WallClock::from_fn(move || *time.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
