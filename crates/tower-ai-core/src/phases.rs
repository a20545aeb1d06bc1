//! How far a request is on the wire: filled by the client that writes it, read by the watchdog.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Waker},
};

/// The phases of one request on the wire. **Put by** the watchdog as a request extension; **filled by** a client
/// that knows (`UpstreamClient`); absent or unclaimed, the watchdog sees only the request body's end and the head.
#[derive(Clone, Default)]
pub struct Phases(Arc<Cells>);

#[derive(Default)]
struct Cells {
    flags: AtomicU8,
    bytes_written: AtomicU64,
    waker: Mutex<Option<Waker>>,
    poison: Mutex<Option<Poison>>,
}

type Poison = Box<dyn FnOnce() + Send>;

const CLAIMED: u8 = 1;
const CONNECTED: u8 = 2;
const WRITTEN: u8 = 4;

impl Phases {
    /// The client promises to tell the phases. To be called in `Service::call`, before it returns.
    pub fn claim(&self) {
        self.raise(CLAIMED);
    }

    /// A connection is there: new, or from a pool.
    pub fn connected(&self) {
        self.raise(CONNECTED);
    }

    /// Some more of the request body was handed to the connection.
    pub fn progress(&self, bytes: usize) {
        self.0.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
        self.wake();
    }

    /// The whole request was handed to the connection.
    pub fn written(&self) {
        self.raise(CONNECTED | WRITTEN);
    }

    /// Leaves a way to keep the connection from being used again.
    pub fn on_poison(&self, poison: impl FnOnce() + Send + 'static) {
        *self.0.poison.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(poison));
    }

    /// Keeps the connection from being used again: it was silent.
    pub fn poison(&self) {
        let poison = self
            .0
            .poison
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(poison) = poison {
            poison();
        }
    }

    /// Whether a client tells the phases.
    pub fn is_claimed(&self) -> bool {
        self.is(CLAIMED)
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.is(CONNECTED)
    }

    /// Whether the whole request was handed to the connection.
    pub fn is_written(&self) -> bool {
        self.is(WRITTEN)
    }

    /// Bytes of the request body handed to the connection.
    pub fn bytes_written(&self) -> u64 {
        self.0.bytes_written.load(Ordering::Relaxed)
    }

    /// Wakes this task when a phase changes. Register first, then look: a change in between is not lost.
    pub fn register(&self, cx: &Context<'_>) {
        let mut waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    fn is(&self, flag: u8) -> bool {
        self.0.flags.load(Ordering::Acquire) & flag != 0
    }

    fn raise(&self, flags: u8) {
        if self.0.flags.fetch_or(flags, Ordering::AcqRel) & flags != flags {
            self.wake();
        }
    }

    fn wake(&self) {
        let waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl fmt::Debug for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phases")
            .field("claimed", &self.is_claimed())
            .field("connected", &self.is_connected())
            .field("written", &self.is_written())
            .field("bytes_written", &self.bytes_written())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_phase_wakes_the_one_who_registered_once() {
        let (phases, wakes) = (Phases::default(), Arc::new(Wakes::default()));
        let waker = wakes.clone().into();
        phases.register(&Context::from_waker(&waker));
        phases.connected();
        phases.connected();
        phases.progress(3);
        assert_eq!(
            wakes.0.load(Ordering::Relaxed),
            1,
            "one wake for one registration"
        );
        phases.register(&Context::from_waker(&waker));
        phases.written();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        assert!(phases.is_connected() && phases.is_written() && phases.bytes_written() == 3);
    }

    #[test]
    fn written_implies_connected() {
        let phases = Phases::default();
        phases.written();
        assert!(phases.is_connected());
    }

    #[test]
    fn a_connection_is_poisoned_once() {
        let (phases, count) = (Phases::default(), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        phases.on_poison(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        phases.poison();
        phases.poison();
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
