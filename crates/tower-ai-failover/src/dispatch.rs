//! The bookkeeping of one call: which candidates, in what time, how each attempt went.

use crate::{
    classify::{Failure, billing, failure, is_throttle},
    layer::Settings,
    observe,
    routes::Candidates,
    select::{Next, Tries},
    share::Time,
    upstream::Candidate,
};
use http::StatusCode;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tower_ai_core::{
    Attempt, AttemptRecord, Call, FailoverTrace, LayerKind, Operation, Reason, Refusal, RefusalKind,
    ServedBy, UsageState,
};

/// The longest wait for the inner service to get ready.
const READY_LIMIT: Duration = Duration::from_secs(1);
/// What a caller is told to wait when no upstream told us.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// One call on its way through its candidates.
#[derive(Debug)]
pub(crate) struct Dispatch {
    settings: Arc<Settings>,
    call: Call,
    candidates: Candidates,
    operation: Option<Operation>,
    time: Time,
    tries: Tries,
    trace: Vec<AttemptRecord>,
    running: Option<Running>,
}

/// The attempt that is under way.
#[derive(Debug)]
struct Running {
    at: usize,
    attempt: Attempt,
    started: Instant,
    /// `None` until it is sent.
    sent: Option<Sent>,
}

/// An attempt that was sent, in the meter from then on: a limit around this layer may settle the call while it is under way.
///
/// When dropped it was given up, unless it is known by then how it ended: states only move forward, and this is the
/// weakest that follows `Sent`.
#[derive(Debug)]
struct Sent {
    call: Call,
    n: u32,
}

impl Sent {
    fn new(call: Call, n: u32) -> Self {
        call.meter().sent(n);
        Self { call, n }
    }

    fn advance(&self, state: UsageState) {
        self.call.meter().update(self.n, |usage| usage.advance(state));
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.advance(UsageState::MaybeBilled);
    }
}

impl Dispatch {
    pub(crate) fn new(
        settings: Arc<Settings>,
        call: Call,
        candidates: Candidates,
        operation: Option<Operation>,
        time: Time,
    ) -> Self {
        Self {
            tries: Tries::new(candidates.len(), settings.attempts),
            settings,
            call,
            candidates,
            operation,
            time,
            trace: Vec::new(),
            running: None,
        }
    }

    /// What to do next. A wait is booked: it is waited for.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if self.time.share(now, self.tries.waited(), 1).is_none() {
            return Next::Nobody;
        }
        let longest = self.time.longest_wait(now, self.tries.waited());
        let next = self.tries.next(now, longest, self.settings.chance.next());
        if let Next::Wait(_, wait) = next {
            self.tries.wait(wait);
        }
        next
    }

    /// Starts an attempt at a candidate.
    pub(crate) fn start(&mut self, at: usize, now: Instant) {
        let candidate = &self.candidates[at];
        let share = self.time.share(now, self.tries.waited(), self.tries.remaining());
        let n = self.tries.start(at);
        let mut attempt = Attempt::new(n, candidate.id.clone(), share.unwrap_or_default());
        attempt.region = candidate.region.clone();
        attempt.first_byte = candidate.first_byte;
        attempt.provider = candidate.provider.clone();
        attempt.priced_as = candidate.priced_as.clone();
        self.running = Some(Running {
            at,
            attempt,
            started: now,
            sent: None,
        });
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("an attempt is under way")
    }

    pub(crate) fn operation(&self) -> Option<Operation> {
        self.operation
    }

    pub(crate) fn candidate(&self) -> &Candidate {
        &self.candidates[self.running().at]
    }

    pub(crate) fn attempt(&self) -> &Attempt {
        &self.running().attempt
    }

    /// Until when the inner service has to be ready.
    pub(crate) fn ready_by(&self) -> Instant {
        self.start_by().min(self.running().started + READY_LIMIT)
    }

    /// Until when the attempt has to have started its answer.
    pub(crate) fn start_by(&self) -> Instant {
        let running = self.running();
        self.time.end.min(running.started + running.attempt.share)
    }

    /// Why the attempt fails when it has not started its answer until then.
    pub(crate) fn too_late(&self) -> Reason {
        Reason::StartLimit(self.running().attempt.share)
    }

    /// The attempt is handed to the inner service.
    pub(crate) fn sent(&mut self) {
        let running = self.running.as_mut().expect("an attempt is under way");
        running.sent = Some(Sent::new(self.call.clone(), running.attempt.n));
    }

    /// The attempt is over; what follows is decided, unless nothing can follow.
    pub(crate) fn failed(&mut self, failure: &Failure, can_go_on: bool, now: Instant) -> Next {
        let running = self.running.take().expect("an attempt is under way");
        if let Some(sent) = &running.sent {
            sent.advance(billing(failure));
        }
        self.tries.failed(running.at, now, failure.again);
        let mut record = AttemptRecord::new(&running.attempt, now - running.started, self.time.left(now));
        record.reason = Some(failure.reason);
        record.status = failure.status.map(|status| status.as_u16());
        record.retry_after = failure.retry_after;
        let next = if can_go_on { self.next(now) } else { Next::Nobody };
        observe::failed(&record, next);
        self.trace.push(record);
        next
    }

    /// The attempt serves the caller.
    pub(crate) fn served(&mut self, status: StatusCode, now: Instant) -> ServedBy {
        let running = self.running.take().expect("an attempt is under way");
        let n = running.attempt.n;
        if let Some(sent) = &running.sent {
            sent.advance(if status.is_success() {
                UsageState::Answered
            } else {
                UsageState::NotBilled
            });
        }
        self.call.meter().served(n);
        let mut record = AttemptRecord::new(&running.attempt, now - running.started, self.time.left(now));
        record.status = Some(status.as_u16());
        observe::served(&record);
        self.trace.push(record);
        ServedBy {
            candidate: running.attempt.candidate.clone(),
            region: running.attempt.region.clone(),
            attempt: n,
        }
    }

    /// A layer inside answered the caller by itself: nobody served.
    pub(crate) fn refused(&mut self, status: StatusCode, now: Instant) {
        let failure = Failure {
            status: Some(status),
            ..failure(Reason::Refused)
        };
        self.failed(&failure, false, now);
    }

    pub(crate) fn trace(&mut self) -> FailoverTrace {
        FailoverTrace(std::mem::take(&mut self.trace).into())
    }

    /// The answer when no candidate served: 429 if every one said 429, else 503.
    pub(crate) fn exhausted(&self, now: Instant) -> Refusal {
        let mut outcomes = self.trace.iter();
        let throttled = !self.trace.is_empty()
            && outcomes.all(|record| {
                record
                    .reason
                    .is_some_and(|reason| is_throttle(record.status, reason))
            });
        let (kind, status) = if throttled {
            (RefusalKind::RateLimit, StatusCode::TOO_MANY_REQUESTS)
        } else {
            (RefusalKind::Unavailable, StatusCode::SERVICE_UNAVAILABLE)
        };
        observe::exhausted(status, self.trace.len(), self.time.left(now));
        Refusal::new(
            LayerKind::Failover,
            kind,
            "all_upstreams_exhausted",
            "all upstreams exhausted",
        )
        .retry_after(self.tries.shortest_rest(now).unwrap_or(DEFAULT_RETRY_AFTER))
    }
}
