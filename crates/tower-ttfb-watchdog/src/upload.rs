//! How far the request is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Context,
};
use tower_ai_core::Phases;

/// How far the request is: told by the client if it claims the phases, else by the request's body, which knows what
/// was taken of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upload {
    phases: Phases,
    /// Counts how often waiting for the caller's next frame began or ended: odd while waiting.
    waits: Arc<AtomicU32>,
}

/// A limit is counted from the moment at which the stage changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Connecting,
    /// The upstream is to take more.
    Writing {
        bytes: u64,
        waits: u32,
    },
    /// The caller is to send more: nobody upstream is silent.
    Starved,
    Written,
}

impl Upload {
    pub(crate) fn phases(&self) -> &Phases {
        &self.phases
    }

    pub(crate) fn stage(&self) -> Stage {
        if self.phases.is_written() {
            return Stage::Written;
        }
        if self.phases.is_claimed() && !self.phases.is_connected() {
            return Stage::Connecting;
        }
        match self.waits.load(Ordering::Acquire) {
            waits if is_waiting(waits) => Stage::Starved,
            waits => Stage::Writing {
                bytes: self.phases.bytes_written(),
                waits,
            },
        }
    }

    /// Wakes this task when the stage changes.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        self.phases.register(cx);
    }

    /// The body was asked for a frame and has none yet.
    pub(crate) fn starves(&self) {
        if !is_waiting(self.waits.load(Ordering::Acquire)) {
            self.waits.fetch_add(1, Ordering::Release);
        }
    }

    /// A frame with this much data was taken of the body.
    pub(crate) fn taken(&self, bytes: usize) {
        let starved = is_waiting(self.waits.load(Ordering::Acquire));
        if starved {
            self.waits.fetch_add(1, Ordering::Release);
        }
        if !self.phases.is_claimed() {
            self.phases.progress(bytes);
        } else if starved {
            self.phases.progress(0); // no progress of the client's, but the limit counts again: wakes the future
        }
    }

    /// The body came to its end, or was dropped: nothing more will be written.
    pub(crate) fn ends(&self) {
        if !self.phases.is_claimed() {
            self.phases.written();
        }
    }
}

fn is_waiting(waits: u32) -> bool {
    waits % 2 == 1
}
