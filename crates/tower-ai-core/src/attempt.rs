//! One attempt at one upstream, its limits, and the record of how it went.

use crate::{ErrorClass, NanoUsd};
use std::{
    borrow::Cow,
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// When the whole call has to be over. **Put by** you, or by the outermost layer that bounds time (540 s).
///
/// A `std` instant; make it from `tokio::time::Instant` so that paused time is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// What is left at `now`; zero when it has passed.
    pub fn left(self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }
}

/// One attempt. **Put by** failover into a clone of the caller's extensions; **read by** Usage, the watchdog and
/// the client. Absent: a single, unnamed upstream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Counts from 1.
    pub n: u32,
    /// The candidate's name.
    pub candidate: Arc<str>,
    /// Where it is, if configured.
    pub region: Option<Arc<str>>,
    /// The time this attempt may take to start its answer.
    pub share: Duration,
    /// The candidate's own limit for the first byte, if configured: it replaces the watchdog's.
    pub first_byte: Option<Duration>,
    /// Whose prices apply (`openai`, `anthropic`, `azure`), if known.
    pub provider: Option<Arc<str>>,
    /// The model's name in price tables at this upstream, if it differs from the one asked for.
    pub priced_as: Option<Arc<str>>,
}

impl Attempt {
    /// Attempt `n` at `candidate`, which may take `share` to start its answer.
    pub fn new(n: u32, candidate: impl Into<Arc<str>>, share: Duration) -> Self {
        Self {
            n,
            candidate: candidate.into(),
            region: None,
            share,
            first_byte: None,
            provider: None,
            priced_as: None,
        }
    }
}

/// Which part of an exchange was silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SilentPhase {
    /// Getting a connection, name lookup and TLS included.
    Connect,
    /// The upload: the peer takes no more of the request.
    Upload,
    /// From the request being written to the first byte of the answer's head.
    FirstByte,
    /// From the head to the first frame of the body.
    FirstBodyByte,
    /// Between two frames of the body.
    Gap,
}

/// An upstream was silent for longer than a limit. A response extension of the watchdog's refusal, and the error of
/// a body that stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Where.
    pub phase: SilentPhase,
    /// The limit that fired.
    pub limit: Duration,
}

/// `ttfb-50ms`: the phase with the limit that fired.
impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase {
            SilentPhase::Connect => "connect",
            SilentPhase::Upload => "upload",
            SilentPhase::FirstByte => "ttfb",
            SilentPhase::FirstBodyByte => "first-body-byte",
            SilentPhase::Gap => "gap",
        };
        write!(f, "{phase}-{:?}", self.limit)
    }
}

impl Error for Silence {}

/// Why an attempt did not serve the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No connection: name lookup, refused, TLS.
    Connect,
    /// The connection broke before the answer was complete enough to commit.
    Reset,
    /// A limit on silence fired.
    Silence(Silence),
    /// The start of the answer took longer than the attempt's share of the deadline.
    StartLimit(Duration),
    /// The upstream answered with this status.
    Status(u16),
    /// An error inside a 200.
    StreamError(ErrorClass),
    /// The answer ended before its first content.
    Truncated,
    /// Another layer inside refused it for this candidate.
    Refused,
    /// The inner service was not ready in time, or failed to get ready.
    NotReady,
    /// The request could not be prepared for this candidate.
    Unprepared,
}

impl Reason {
    /// The name without figures: a metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::Silence(silence) => match silence.phase {
                SilentPhase::Connect => "connect_timeout",
                SilentPhase::Upload => "upload",
                SilentPhase::FirstByte => "ttfb",
                SilentPhase::FirstBodyByte => "body_silent",
                SilentPhase::Gap => "idle",
            },
            Self::StartLimit(_) => "start_limit",
            Self::Status(_) => "status",
            Self::StreamError(_) => "stream_error",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::NotReady => "not_ready",
            Self::Unprepared => "unprepared",
        }
    }
}

/// With the figure that decided: `ttfb-50ms`, `status-529`, `stream-overloaded`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(silence) => silence.fmt(f),
            Self::StartLimit(limit) => write!(f, "start-limit-{limit:?}"),
            Self::Status(status) => write!(f, "status-{status}"),
            Self::StreamError(class) => write!(f, "stream-{}", class.as_str()),
            other => f.write_str(other.label()),
        }
    }
}

/// How one attempt went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// Counts from 1.
    pub n: u32,
    /// The candidate's name.
    pub candidate: Arc<str>,
    /// Where it is, if configured.
    pub region: Option<Arc<str>>,
    /// Why it did not serve; `None` for the attempt that did.
    pub reason: Option<Reason>,
    /// The status of its answer, if there was one.
    pub status: Option<u16>,
    /// How long the upstream asked to be left alone.
    pub retry_after: Option<Duration>,
    /// How long the attempt took to its outcome.
    pub took: Duration,
    /// What was left of the call's deadline then.
    pub remaining: Duration,
}

impl AttemptRecord {
    /// A record of an attempt that served; set the rest as needed.
    pub fn new(attempt: &Attempt, took: Duration, remaining: Duration) -> Self {
        Self {
            n: attempt.n,
            candidate: attempt.candidate.clone(),
            region: attempt.region.clone(),
            reason: None,
            status: None,
            retry_after: None,
            took,
            remaining,
        }
    }
}

/// Every attempt of a call, in order. A response extension **put by** failover.
#[derive(Clone, Debug, Default)]
pub struct FailoverTrace(pub Arc<[AttemptRecord]>);

/// Who served the call. A response extension **put by** failover.
#[derive(Clone, Debug)]
pub struct ServedBy {
    /// The candidate's name.
    pub candidate: Arc<str>,
    /// Where it is, if configured.
    pub region: Option<Arc<str>>,
    /// Which attempt it was, from 1.
    pub attempt: u32,
}

/// From the request being on the wire to the first byte of the answer. A response extension **put by** the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstByte(pub Duration);

/// What the limits said. A response extension **put by** the rate limiter on every decision; absent: none was made.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    /// In the order of configuration.
    pub limits: Arc<[QuotaLimit]>,
    /// The plan that applied.
    pub plan: Option<Arc<str>>,
}

/// One limit, as of the decision.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuotaLimit {
    /// Its configured name.
    pub name: Cow<'static, str>,
    /// The most it holds: the burst.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// Time until it is full again.
    pub reset_after: Duration,
    /// For a limit that refused: time until the same call would pass; `None` when it never can, or did not refuse.
    pub retry_after: Option<Duration>,
    /// Whether this limit refused the call.
    pub refused: bool,
}

impl QuotaLimit {
    /// A limit that did not refuse.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        limit: u64,
        remaining: u64,
        reset_after: Duration,
    ) -> Self {
        Self {
            name: name.into(),
            limit,
            remaining,
            reset_after,
            retry_after: None,
            refused: false,
        }
    }
}

/// What the budget said when the call was reserved. A response extension **put by** the budget layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetState {
    /// The window's limit.
    pub limit: NanoUsd,
    /// Settled in this window.
    pub spent: NanoUsd,
    /// Held by calls that are under way, this one included.
    pub reserved: NanoUsd,
    /// Time until the window ends.
    pub reset_after: Duration,
}

impl BudgetState {
    /// The state of a budget.
    pub fn new(limit: NanoUsd, spent: NanoUsd, reserved: NanoUsd, reset_after: Duration) -> Self {
        Self {
            limit,
            spent,
            reserved,
            reset_after,
        }
    }
}
