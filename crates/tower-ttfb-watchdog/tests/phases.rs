//! A client that tells the phases of its requests.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http_body_util::BodyExt;
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{MS, SECOND, call, ok, request, short_request, silence, wire};
use testkit::ScriptedBody;
use tokio::time::sleep;
use tower_ai_core::{FirstByte, Phases};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

fn watchdog() -> TtfbWatchdogLayer {
    TtfbWatchdogLayer::new()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_come_is_given_up_after_3_s() {
    let black_hole = |_, _| pending();
    let (response, took) = call(watchdog(), wire(black_hole), short_request()).await;
    assert_eq!((silence(&response).as_str(), took), ("connect-3s", 3 * SECOND));

    let (response, took) = call(watchdog().connect(5 * SECOND), wire(black_hole), short_request()).await;
    assert_eq!((silence(&response).as_str(), took), ("connect-5s", 5 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn connecting_and_writing_do_not_count_towards_the_first_byte() {
    let client = wire(|phases: Phases, body| async move {
        sleep(2 * SECOND).await;
        phases.connected();
        body.collect().await.unwrap();
        sleep(8 * SECOND).await;
        phases.written();
        sleep(20 * MS).await;
        ok(ScriptedBody::of(["hi"]))
    });
    let (response, took) = call(watchdog(), client, short_request()).await;
    assert_eq!((response.status().as_u16(), took), (200, 10_020 * MS));
    assert_eq!(response.extensions().get(), Some(&FirstByte(20 * MS)));
}

#[tokio::test(start_paused = true)]
async fn silence_is_counted_from_the_moment_at_which_the_client_says_written() {
    let client = wire(|phases: Phases, body| async move {
        body.collect().await.unwrap(); // taken is not written
        phases.connected();
        sleep(4 * SECOND).await;
        phases.written();
        pending().await
    });
    let (response, took) = call(watchdog(), client, short_request()).await;
    assert_eq!((silence(&response).as_str(), took), ("ttfb-50ms", 4050 * MS));
}

/// The phases change in another task, as they do in hyper's connection.
#[tokio::test(start_paused = true)]
async fn a_phase_that_changes_elsewhere_sets_the_timer_at_once() {
    let client = wire(|phases: Phases, _| async move {
        tokio::spawn(async move {
            sleep(SECOND).await;
            phases.connected();
            for _ in 0..4 {
                sleep(9 * SECOND).await;
                phases.progress(1024);
            }
            sleep(SECOND).await;
            phases.written();
        });
        pending().await
    });
    let (response, took) = call(watchdog(), client, short_request()).await;
    assert_eq!((silence(&response).as_str(), took), ("ttfb-50ms", 38_050 * MS));
}

#[tokio::test(start_paused = true)]
async fn an_upload_without_progress_is_given_up_after_10_s() {
    let client = wire(|phases: Phases, body| async move {
        body.collect().await.unwrap();
        sleep(SECOND).await;
        phases.connected();
        sleep(9 * SECOND).await;
        phases.progress(1024);
        pending().await
    });
    let (response, took) = call(watchdog(), client, short_request()).await;
    assert_eq!((silence(&response).as_str(), took), ("upload-10s", 20 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn what_a_client_takes_but_does_not_write_is_no_progress() {
    let client = wire(|phases: Phases, mut body| async move {
        phases.connected();
        while body.frame().await.is_some() {
            sleep(3 * SECOND).await;
        }
        pending().await
    });
    let (response, took) = call(watchdog(), client, request(ScriptedBody::of(["x"; 20]))).await;
    assert_eq!((silence(&response).as_str(), took), ("upload-10s", 10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_upload_limit_counts_again_from_the_callers_next_piece() {
    let client = wire(|phases: Phases, body| async move {
        phases.connected();
        tokio::spawn(body.collect()); // as hyper's connection does
        pending().await
    });
    let upload = ScriptedBody::of(["a "]).after(9 * SECOND).data("prompt");
    let (response, took) = call(watchdog(), client, request(upload)).await;
    assert_eq!((silence(&response).as_str(), took), ("upload-10s", 19 * SECOND));
}

/// What the poison hook of a connection counted, for a client that goes on as `then` says.
async fn poisoned<F>(then: impl Fn(Phases) -> F + Clone) -> (String, usize)
where
    F: Future<Output = Result<http::Response<ScriptedBody>, String>>,
{
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let client = wire(move |phases: Phases, _| {
        let counted = counted.clone();
        phases.on_poison(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        phases.connected();
        then(phases)
    });
    let (response, _) = call(watchdog(), client, short_request()).await;
    (silence(&response), count.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_came_back_is_not_used_again() {
    let silent = poisoned(|phases| async move {
        phases.written();
        pending().await
    });
    assert_eq!(silent.await, ("ttfb-50ms".into(), 1));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_brought_a_head_stays_in_use() {
    let head_only = poisoned(|phases| async move {
        phases.written();
        ok(ScriptedBody::new().forever())
    });
    assert_eq!(head_only.await, ("first-body-byte-50ms".into(), 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_request_is_written_passes_at_its_head() {
    let client = wire(|phases: Phases, body| async move {
        phases.connected();
        body.collect().await.unwrap(); // taken, and still being written
        ok(ScriptedBody::new().after(SECOND).data("too large"))
    });
    let (response, took) = call(watchdog(), client, short_request()).await;
    assert_eq!((response.status().as_u16(), took), (200, Duration::ZERO));
}
