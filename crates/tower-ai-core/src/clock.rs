//! The wall clock, for calendars, leases and price dates only; durations use a monotonic one.

use std::{fmt, sync::Arc, time::SystemTime};

/// Tells the date and time. Injected, so that a test can be at any midnight it likes.
#[derive(Clone, Default)]
pub struct WallClock(Option<Arc<dyn Fn() -> SystemTime + Send + Sync>>);

impl WallClock {
    /// The machine's clock.
    pub const fn system() -> Self {
        Self(None)
    }

    /// A clock of your own.
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    /// The time now.
    pub fn now(&self) -> SystemTime {
        match &self.0 {
            None => SystemTime::now(),
            Some(now) => now(),
        }
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() {
            "WallClock::system"
        } else {
            "WallClock::from_fn"
        })
    }
}
