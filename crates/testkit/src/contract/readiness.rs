//! Readiness: a reservation of the instance that was polled.

use super::{Contract, answered, quiet, within};
use crate::{Answer, NOT_READY, ProbeService, ScriptedBody};
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::time::sleep;
use tower::ServiceExt;
use tower_service::Service;

fn probe() -> ProbeService {
    ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hello"])))
}

/// The inner instance whose `poll_ready` was ready is the one that is called: never a fresh clone, and never one
/// call more than was reserved.
///
/// # Panics
/// When the layer does otherwise.
pub async fn the_polled_instance_is_called(contract: &Contract) {
    let probe = probe().ready_after(2).capacity(1);
    let mut stack = contract.stack(&probe);
    for n in 1..=3 {
        let response = answered(&mut stack, contract.fresh_request()).await;
        assert!(
            response.status().is_success(),
            "call {n} was answered {}",
            response.status()
        );
        let _ = response.into_body().collect().await;
        assert_eq!(
            probe.calls(),
            n,
            "the inner service was not called once for each call"
        );
    }
}

/// A call waits until the inner service is ready, and is woken then.
///
/// # Panics
/// When the layer does otherwise.
pub async fn readiness_of_the_inner_service_is_awaited(contract: &Contract) {
    let probe = probe().capacity(1);
    let mut holder = probe.clone();
    within(
        "the probe gets ready",
        ServiceExt::<http::Request<ScriptedBody>>::ready(&mut holder),
    )
    .await
    .expect("ready");

    let mut stack = contract.stack(&probe);
    let release = async {
        sleep(Duration::from_millis(10)).await;
        assert_eq!(probe.calls(), 0, "{NOT_READY}");
        drop(holder);
    };
    let (response, ()) = tokio::join!(answered(&mut stack, contract.fresh_request()), release);
    assert!(response.status().is_success(), "answered {}", response.status());
}

/// Readiness is not carried over to a clone, nor taken away by one.
///
/// # Panics
/// When the layer does otherwise.
pub async fn a_clone_becomes_ready_by_itself(contract: &Contract) {
    let probe = probe().ready_after(1).capacity(2);
    let mut original = contract.stack(&probe);
    within("the stack gets ready", original.ready())
        .await
        .expect("ready");
    let mut clone = original.clone();
    let from_clone = answered(&mut clone, contract.fresh_request()).await;
    let from_original = within("the response comes", original.call(contract.fresh_request())).await;
    assert!(
        from_clone.status().is_success(),
        "the clone was answered {}",
        from_clone.status()
    );
    let status = from_original.expect("the call of the original succeeds").status();
    assert!(status.is_success(), "the original was answered {status}");
}

/// A service that got ready and is dropped, or never called, holds nothing.
///
/// # Panics
/// When the layer does otherwise.
pub async fn a_ready_service_that_is_dropped_leaks_nothing(contract: &Contract) {
    let probe = probe().capacity(1);
    let stack = contract.stack(&probe);
    for _ in 0..3 {
        let mut clone = stack.clone();
        within(
            "a clone gets ready although another was ready before",
            clone.ready(),
        )
        .await
        .expect("ready");
        drop(clone);
        assert_eq!(
            probe.permits_out(),
            0,
            "a dropped service kept the readiness of the inner service"
        );
    }
    quiet().await;
    contract.assert_none_reserved("after a ready service was dropped");
    let response = answered(&mut stack.clone(), contract.fresh_request()).await;
    assert!(response.status().is_success(), "answered {}", response.status());
}

/// When the inner service cannot get ready, the caller learns it: from `poll_ready`, from the call, or from a
/// response that is no success.
///
/// # Panics
/// When the layer does otherwise.
pub async fn a_failed_readiness_is_not_hidden(contract: &Contract) {
    let probe = probe().failing_readiness("the probe is broken");
    let mut stack = contract.stack(&probe);
    let answer = async { stack.ready().await?.call(contract.fresh_request()).await };
    if let Ok(response) = within("a failure is told", answer).await {
        assert!(
            !response.status().is_success(),
            "answered {} by a broken service",
            response.status()
        );
    }
    assert_eq!(probe.calls(), 0, "{NOT_READY}");
}

/// A request that the layer refuses by itself gives back what the inner service reserved for it, at once: the caller
/// may keep the stack and never call it again. Nothing is checked without a [`Contract::refused_request`].
///
/// # Panics
/// When the layer does otherwise.
pub async fn a_refusal_gives_the_readiness_back(contract: &Contract) {
    let Some(refused_request) = &contract.refused_request else {
        return;
    };
    let probe = probe().capacity(1);
    let mut stack = contract.stack(&probe);
    let _refusal = answered(&mut stack, refused_request()).await;
    assert_eq!(probe.calls(), 0, "the request was not refused by the layer");
    assert_eq!(
        probe.permits_out(),
        0,
        "a refusal kept the readiness of the inner service"
    );
    let response = answered(&mut stack.clone(), contract.fresh_request()).await;
    assert!(response.status().is_success(), "answered {}", response.status());
}
