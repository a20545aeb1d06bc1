//! No busy loop: what waits is polled when it was woken, and not otherwise.

use super::{AnyBody, Contract, LONG, answered};
use crate::{Answer, ProbeService, ScriptedBody};
use http_body::Body;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
};
use tokio::time::timeout;
use tower_service::Service;

/// Polls allowed in an hour in which nothing happens. A few are honest: a timer that fires, another attempt.
const ENOUGH_POLLS: usize = 64;

/// Runs `future` through an hour of silence (paused time) and counts its polls.
async fn few_polls<T>(during: &str, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    let counted = poll_fn(|cx| {
        polls += 1;
        assert!(
            polls <= ENOUGH_POLLS,
            "a busy loop: polled {polls} times while {during}"
        );
        future.as_mut().poll(cx)
    });
    timeout(LONG, counted).await.ok()
}

/// While the inner service is not ready, neither `poll_ready` nor the future wakes itself.
///
/// # Panics
/// When the layer does otherwise.
pub async fn nothing_is_polled_while_the_inner_service_is_not_ready(contract: &Contract) {
    let probe = ProbeService::new(|_| Answer::never()).capacity(0);
    let mut stack = contract.stack(&probe);
    let ready = few_polls(
        "the inner service is not ready",
        poll_fn(|cx| stack.poll_ready(cx)),
    )
    .await;
    if let Some(Ok(())) = ready {
        few_polls(
            "the inner service is not ready",
            stack.call(contract.fresh_request()),
        )
        .await;
    }
}

/// While the request's body has nothing to read, the future does not wake itself.
///
/// # Panics
/// When the layer does otherwise.
pub async fn nothing_is_polled_while_the_request_body_is_pending(contract: &Contract) {
    let probe = ProbeService::new(|_| Answer::never());
    let mut stack = contract.stack(&probe);
    let _ = few_polls("the stack gets ready", poll_fn(|cx| stack.poll_ready(cx))).await;
    let request = contract
        .fresh_request()
        .map(|_| ScriptedBody::of(["{"]).forever());
    few_polls("the request's body is pending", stack.call(request)).await;
}

/// While the inner service has no answer, the future does not wake itself.
///
/// # Panics
/// When the layer does otherwise.
pub async fn nothing_is_polled_while_the_answer_is_pending(contract: &Contract) {
    let probe = ProbeService::new(|_| Answer::never());
    let mut stack = contract.stack(&probe);
    let _ = few_polls("the stack gets ready", poll_fn(|cx| stack.poll_ready(cx))).await;
    few_polls("the answer is pending", stack.call(contract.fresh_request())).await;
}

/// While the inner body has nothing to read, the body does not wake itself.
///
/// # Panics
/// When the layer does otherwise.
pub async fn nothing_is_polled_while_the_body_is_pending(contract: &Contract) {
    let probe = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hello"]).forever()));
    let mut stack = contract.stack(&probe);
    let answer = few_polls(
        "the body is pending",
        answered(&mut stack, contract.fresh_request()),
    )
    .await;
    if let Some(response) = answer {
        few_polls("the body is pending", to_end(response.into_body())).await;
    }
}

async fn to_end(mut body: AnyBody) {
    while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {}
}
