//! Obligations: each call settles once, whatever end it meets, and nothing is left running.

use super::{Contract, answered, quiet, within};
use crate::{ALL_ENDS, Answer, BodyWatch, ProbeService, ScriptedBody};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};
use tower::ServiceExt;
use tower_service::Service;

/// A body that meets one of the five ends settles once, and the inner body is gone then.
///
/// # Panics
/// When the layer does otherwise.
pub async fn each_end_of_a_body_settles_once(contract: &Contract) {
    for end in ALL_ENDS {
        let case = format!("end {end:?}");
        let watches = Watches::default();
        let kept = watches.clone();
        let probe = ProbeService::new(move |_| {
            let body = end.body(["one ", "two ", "three"]);
            kept.keep(&body);
            Answer::ok(body)
        });
        let before = contract.settled();
        let response = answered(&mut contract.stack(&probe), contract.fresh_request()).await;
        within("the body ends", end.meet(response.into_body())).await;
        contract.assert_over(before, &probe, &watches, &case).await;
    }
}

/// A call that fails settles once.
///
/// # Panics
/// When the layer does otherwise.
pub async fn a_failed_call_settles_once(contract: &Contract) {
    let probe = ProbeService::new(|_| Answer::error("the probe fails"));
    let before = contract.settled();
    let mut stack = contract.stack(&probe);
    let call = within("the stack gets ready", stack.ready())
        .await
        .expect("ready")
        .call(contract.fresh_request());
    if let Ok(response) = within("the response comes", call).await {
        assert!(!contract.errors_pass, "the error of the inner service was hidden");
        assert!(
            !response.status().is_success(),
            "answered {} by a failed service",
            response.status()
        );
    }
    contract
        .assert_over(before, &probe, &Watches::default(), "a failed call")
        .await;
}

/// A future that is dropped after its n-th poll, for every n from 0 up to its completion, settles once, and stops the
/// inner call.
///
/// # Panics
/// When the layer does otherwise.
pub async fn a_future_dropped_after_any_poll_settles_once(contract: &Contract) {
    for n in 0.. {
        assert!(n < 1000, "the call is not over after {n} polls");
        let watches = Watches::default();
        let kept = watches.clone();
        let probe = ProbeService::new(move |_| {
            let body = ScriptedBody::of(["one ", "two"]);
            kept.keep(&body);
            Answer::ok(body).pending(2).after(Duration::from_millis(5))
        });
        let before = contract.settled();
        let mut stack = contract.stack(&probe);
        let call = within("the stack gets ready", stack.ready())
            .await
            .expect("ready")
            .call(contract.fresh_request());
        let is_done = within("the call goes on", polled(n, call)).await.is_some();
        contract
            .assert_over(before, &probe, &watches, &format!("dropped after {n} polls"))
            .await;
        if is_done {
            break;
        }
    }
}

/// Polls `future` at most `n` times, each time when it was woken, then drops it.
async fn polled<F: Future>(n: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = n;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The bodies that a probe gave out.
#[derive(Clone, Default)]
struct Watches(Arc<Mutex<Vec<BodyWatch>>>);

impl Watches {
    fn keep(&self, body: &ScriptedBody) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(body.watch());
    }

    fn all_dropped(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .all(BodyWatch::is_dropped)
    }
}

impl Contract {
    fn settled(&self) -> usize {
        self.settlements.as_ref().map_or(0, |count| count())
    }

    pub(super) fn assert_none_reserved(&self, case: &str) {
        if let Some(count) = &self.reservations {
            assert_eq!(count(), 0, "{case}: reservations are left open");
        }
    }

    /// The one call since `before` is over, the caller holds nothing of it any more.
    async fn assert_over(&self, before: usize, probe: &ProbeService, watches: &Watches, case: &str) {
        assert_eq!(probe.permits_out(), 0, "{case}: the inner call goes on");
        quiet().await;
        assert!(watches.all_dropped(), "{case}: the inner body is kept");
        if self.settlements.is_some() {
            let settled = self.settled() - before;
            let is_reserved = probe.calls() > 0;
            assert!(
                settled == 1 || (settled == 0 && !is_reserved),
                "{case}: settled {settled} times"
            );
        }
        self.assert_none_reserved(case);
    }
}
