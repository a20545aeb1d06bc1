//! From a store's verdict to a call or a refusal.

use crate::{
    By, Limit, LimitState, Outage, PerLimit, Room, Store, Verdict,
    ask::Ask,
    headers::{self, Moment},
    layer::Rules,
    limit::LimitSet,
    observe,
    reservation::Reservation,
};
use http::response;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tower_ai_core::{LayerKind, Outcome, Quota, QuotaLimit, Refusal, RefusalKind, RefusedBy};

/// What becomes of a request.
pub(crate) enum Decision<St: Store> {
    /// It passes; `None` when nothing was decided.
    Pass(Option<Admitted<St>>),
    Refuse(Refused),
}

impl<St: Store> Decision<St> {
    pub(crate) fn of(mut ask: Ask<St>, verdict: Verdict) -> Self {
        match verdict {
            Verdict::Admitted(states) => {
                let told = Told::of(&ask, &states);
                for (charge, state) in ask.charges.iter_mut().zip(states.iter()) {
                    charge.mark = state.mark;
                }
                Self::Pass(Some(Admitted {
                    told,
                    reservation: Reservation::new(ask),
                }))
            }
            Verdict::Refused(states) => Self::Refuse(refused(&ask, &states)),
            Verdict::Unavailable { reason } => {
                observe::unavailable(reason, ask.rules.outage);
                match ask.rules.outage {
                    Outage::Open => Self::Pass(None),
                    Outage::Closed => Self::Refuse(unavailable()),
                }
            }
        }
    }
}

/// A request that passes, and what was taken for it.
pub(crate) struct Admitted<St: Store> {
    told: Told,
    reservation: Reservation<St>,
}

impl<St: Store> Admitted<St> {
    /// The inner service failed.
    pub(crate) fn fail(mut self) {
        self.reservation.set_outcome(Outcome::Failed);
    }

    /// The head leaves. Returns what is left to settle with the body.
    pub(crate) fn answer(mut self, head: &mut response::Parts) -> Option<Reservation<St>> {
        self.reservation.set_outcome(outcome(head));
        self.told.tell(head);
        Some(self.reservation).filter(Reservation::outlasts_the_head)
    }
}

fn outcome(head: &response::Parts) -> Outcome {
    if head.extensions.get::<RefusedBy>().is_some() {
        Outcome::Refused
    } else if head.status.is_success() {
        Outcome::Success
    } else {
        Outcome::Error
    }
}

/// The head of a request on which nothing was decided: we say nothing of limits, nor does an upstream. An inner
/// limiter of ours may have.
pub(crate) fn answer_undecided(head: &mut response::Parts) {
    if head.extensions.get::<Quota>().is_none() {
        headers::strip(&mut head.headers);
    }
}

/// What a caller is told of a decision.
pub(crate) struct Told {
    quota: Quota,
    set: Arc<LimitSet>,
    rules: Arc<Rules>,
    decided_at: Instant,
}

impl Told {
    fn of<St: Store>(ask: &Ask<St>, states: &PerLimit<LimitState>) -> Self {
        let limits = ask.charges.iter().zip(states.iter());
        let limits = limits.map(|(charge, state)| quota_limit(charge.limit(&ask.set), state));
        Self {
            quota: Quota {
                limits: limits.collect(),
                plan: ask.set.plan.clone(),
            },
            set: ask.set.clone(),
            rules: ask.rules.clone(),
            decided_at: Instant::now(),
        }
    }

    pub(crate) fn tell(self, head: &mut response::Parts) {
        let at = Moment {
            elapsed: self.decided_at.elapsed(),
            wall: self.rules.wall_clock.now(),
        };
        headers::strip(&mut head.headers);
        headers::render(
            &mut head.headers,
            &self.quota,
            &self.set,
            at,
            self.rules.ietf_headers,
        );
        head.extensions.insert(self.quota);
    }
}

fn quota_limit(limit: &Limit, state: &LimitState) -> QuotaLimit {
    let mut told = QuotaLimit::new(
        limit.shared_name(),
        limit.gcra().capacity(),
        state.remaining,
        state.reset_after,
    );
    told.refused = state.room != Room::Enough;
    if let Room::After(wait) = state.room {
        told.retry_after = Some(wait);
    }
    told
}

/// A refusal, and the decision behind it if there is one.
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    pub(crate) told: Option<Told>,
}

impl Refused {
    fn undecided(refusal: Refusal) -> Self {
        Self { refusal, told: None }
    }
}

/// No key for a limit.
pub(crate) fn missing_key(by: By) -> Refused {
    observe::missing_key(by);
    let message = match by {
        By::User => "no user: the server has to put `Caller` with a user into the request's extensions",
        By::ClientAddr => {
            "no client address: the server has to put `ClientAddr` into the request's extensions"
        }
        By::Custom => "the request lacks what its limit is counted for",
        By::Tenant | By::All => return Refused::undecided(Refusal::missing_caller(LayerKind::RateLimit)),
    };
    Refused::undecided(Refusal::new(
        LayerKind::RateLimit,
        RefusalKind::MissingCaller,
        "missing_caller",
        message,
    ))
}

fn unavailable() -> Refused {
    Refused::undecided(
        Refusal::new(
            LayerKind::RateLimit,
            RefusalKind::Unavailable,
            "limiter_unavailable",
            "the rate limiter is unavailable",
        )
        .retry_after(Duration::from_secs(1)),
    )
}

/// A limit refused; the one that makes the caller wait longest is to blame.
fn refused<St: Store>(ask: &Ask<St>, states: &PerLimit<LimitState>) -> Refused {
    let limits = ask.charges.iter().zip(states.iter());
    let blamed = limits
        .filter(|(_, state)| state.room != Room::Enough)
        .max_by_key(|(_, state)| (state.room == Room::Never, wait(state)));
    let (code, refusal) = match blamed {
        Some((charge, state)) if state.room == Room::Never => {
            let limit = charge.limit(&ask.set);
            let (cost, capacity) = (charge.cost, limit.gcra().capacity());
            let message = format!(
                "the request needs {cost} of limit \"{}\", which holds {capacity}",
                limit.name()
            );
            let code = "request_exceeds_limit";
            let refusal = Refusal::new(LayerKind::RateLimit, RefusalKind::TooLarge, code, message);
            (code, refusal.never_retry())
        }
        _ => {
            let code = "rate_limit_exceeded";
            let refusal = Refusal::new(
                LayerKind::RateLimit,
                RefusalKind::RateLimit,
                code,
                "rate limit exceeded",
            );
            let longest = blamed.map_or(Duration::ZERO, |(_, state)| wait(state));
            (code, refusal.retry_after(longest))
        }
    };
    if let Some((charge, state)) = blamed {
        let wait = (state.room != Room::Never).then(|| wait(state));
        observe::refused(
            &ask.call,
            ask.set.plan.as_ref(),
            charge.limit(&ask.set),
            wait,
            code,
        );
    }
    Refused {
        refusal,
        told: Some(Told::of(ask, states)),
    }
}

fn wait(state: &LimitState) -> Duration {
    match state.room {
        Room::After(wait) => wait,
        Room::Enough | Room::Never => Duration::ZERO,
    }
}
