//! The probe's readiness: a semaphore that can be polled.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// How many instances may be ready or running.
#[derive(Debug)]
pub(crate) struct Permits {
    capacity: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    waiting: Vec<Waker>,
}

/// Given back when dropped.
pub(crate) struct Permit(Arc<Permits>);

impl Permits {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            taken: Mutex::default(),
        }
    }

    pub(crate) fn poll_take(self: &Arc<Self>, cx: &Context<'_>) -> Poll<Permit> {
        let mut taken = self.taken();
        if taken.count >= self.capacity {
            if !taken.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                taken.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        taken.count += 1;
        Poll::Ready(Permit(self.clone()))
    }

    pub(crate) fn out(&self) -> usize {
        self.taken().count
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let waiting = {
            let mut taken = self.0.taken();
            taken.count -= 1;
            std::mem::take(&mut taken.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
