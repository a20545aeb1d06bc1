//! The layer and its limits.

use crate::TtfbWatchdog;
use std::time::Duration;
use tower_layer::Layer;

/// Applies [`TtfbWatchdog`] to the client of an upstream.
///
/// A limit is taken at its word: with zero, what is not there at once is silent; with `Duration::MAX`, the phase is
/// unlimited.
#[derive(Clone, Debug, Default)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct TtfbWatchdogLayer {
    limits: Limits,
}

impl TtfbWatchdogLayer {
    /// Connect 3 s, upload without progress 10 s, first byte 50 ms, gap 60 s.
    ///
    /// 50 ms suits upstreams whose P99 is under 40 ms. Give slower ones their own limit, here or per candidate by
    /// [`Attempt::first_byte`](tower_ai_core::Attempt).
    pub fn new() -> Self {
        Self::default()
    }

    /// From the request being written to the first byte of the answer's body, its head included. Default: 50 ms.
    pub fn first_byte(mut self, limit: Duration) -> Self {
        self.limits.first_byte = limit;
        self
    }

    /// From the call to a connection. Default: 3 s. Obeyed where the client tells of its connections by
    /// [`Phases`](tower_ai_core::Phases); elsewhere connecting is part of the upload.
    pub fn connect(mut self, limit: Duration) -> Self {
        self.limits.connect = limit;
        self
    }

    /// Between two pieces of the request that the upstream takes. Default: 10 s. Time in which the caller's body
    /// has nothing to send does not count.
    pub fn upload(mut self, limit: Duration) -> Self {
        self.limits.upload = limit;
        self
    }

    /// Between two frames of the answer's body, while somebody waits for the next. Default: 60 s.
    pub fn gap(mut self, limit: Duration) -> Self {
        self.limits.gap = limit;
        self
    }
}

impl<S> Layer<S> for TtfbWatchdogLayer {
    type Service = TtfbWatchdog<S>;

    fn layer(&self, inner: S) -> TtfbWatchdog<S> {
        TtfbWatchdog::new(inner, self.limits)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) upload: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) gap: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            upload: Duration::from_secs(10),
            first_byte: Duration::from_millis(50),
            gap: Duration::from_secs(60),
        }
    }
}
