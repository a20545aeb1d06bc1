//! One timer for one limit after the other.

use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

pin_project! {
    /// Rings when a limit is over. It costs nothing until it is waited for, and setting it to a later time (each
    /// piece of an upload does) costs no more than noting the time: it rings early then, and is moved.
    #[derive(Debug, Default)]
    pub(crate) struct Timer {
        #[pin]
        sleep: Option<Sleep>,
        at: Option<Instant>,
        grace: Duration,
    }
}

/// A timer that rings later than this shows that this process stalled, not the upstream: its answer may be there,
/// unread.
const PUNCTUAL: Duration = Duration::from_millis(20);

impl Timer {
    /// Rings when `limit` is over, counted from `now`; never if that is beyond the clock.
    pub(crate) fn set(self: Pin<&mut Self>, now: Instant, limit: Duration) {
        let this = self.project();
        *this.at = now.checked_add(limit);
        *this.grace = limit;
    }

    /// Does not ring.
    pub(crate) fn stop(self: Pin<&mut Self>) {
        *self.project().at = None;
    }

    /// Waits until it rings. If it rings late, it gives the upstream the lost time again, once and at most the limit.
    pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            let Some(at) = *this.at else {
                return Poll::Pending;
            };
            let mut sleep = match this.sleep.as_mut().as_pin_mut() {
                Some(sleep) => sleep,
                None => {
                    this.sleep.set(Some(sleep_until(at)));
                    continue;
                }
            };
            if sleep.deadline() > at {
                sleep.as_mut().reset(at);
            }
            ready!(sleep.as_mut().poll(cx));

            let now = Instant::now();
            if sleep.deadline() < at {
                sleep.reset(at);
                continue;
            }
            let late = now.saturating_duration_since(at);
            if late <= PUNCTUAL || this.grace.is_zero() {
                return Poll::Ready(());
            }
            *this.at = Some(now + late.min(std::mem::take(this.grace)));
        }
    }
}
