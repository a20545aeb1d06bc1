//! How many bytes of request bodies may be in memory at once.

use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::sync::{Notify, futures::OwnedNotified};

/// A limit that clones share.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    limit: u64,
    free: Arc<AtomicU64>,
    freed: Arc<Notify>,
}

/// Bytes that are taken until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    memory: Memory,
    bytes: u64,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            free: Arc::new(AtomicU64::new(limit)),
            freed: Arc::default(),
        }
    }

    /// Takes `bytes`, or all there is if it is more, as soon as they are free.
    pub(super) fn take(&self, bytes: u64) -> Take {
        Take {
            memory: self.clone(),
            bytes: bytes.min(self.limit),
            freed: None,
        }
    }

    fn try_take(&self, bytes: u64) -> Option<Hold> {
        self.free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| {
                free.checked_sub(bytes)
            })
            .ok()
            .map(|_| Hold {
                memory: self.clone(),
                bytes,
            })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.free.fetch_add(self.bytes, Ordering::AcqRel);
        self.memory.freed.notify_waiters();
    }
}

pin_project! {
    /// Waits until there is room. Whoever comes first after some was freed gets it.
    #[derive(Debug)]
    pub(super) struct Take {
        memory: Memory,
        bytes: u64,
        #[pin]
        freed: Option<OwnedNotified>,
    }
}

impl Future for Take {
    type Output = Hold;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Hold> {
        let mut this = self.project();
        loop {
            if let Some(hold) = this.memory.try_take(*this.bytes) {
                return Poll::Ready(hold);
            }
            match this.freed.as_mut().as_pin_mut() {
                Some(freed) => {
                    ready!(freed.poll(cx));
                    this.freed.set(None);
                }
                // It is told of what is freed from now on, so look again before waiting.
                None => this.freed.set(Some(this.memory.freed.clone().notified_owned())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn what_is_dropped_is_free_for_who_waits() {
        let memory = Memory::new(100);
        let held = memory.take(80).await;
        let waiting = tokio::spawn(memory.take(30));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        assert_eq!(waiting.await.unwrap().bytes, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_gives_up_waiting_holds_nothing() {
        let memory = Memory::new(100);
        let held = memory.take(100).await;
        assert!(timeout(Duration::from_secs(1), memory.take(1)).await.is_err());
        drop(held);
        assert_eq!(memory.take(100).await.bytes, 100);
    }

    #[tokio::test]
    async fn more_than_the_limit_is_all_of_it() {
        assert_eq!(Memory::new(100).take(u64::MAX).await.bytes, 100);
    }
}
