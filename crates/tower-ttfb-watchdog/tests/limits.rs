//! Each limit fires at its instant, and at no other; a client that tells nothing of the wire.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::{Request, Response};
use http_body_util::BodyExt;
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};
use support::{MINUTE, MS, SECOND, call, ok, request, short_request, silence};
use testkit::{Answer, ProbeService, ScriptedBody};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_ai_core::{Attempt, Call, FirstByte, LayerKind, RefusedBy};
use tower_ttfb_watchdog::{RequestBody, TtfbWatchdogLayer};

fn watchdog() -> TtfbWatchdogLayer {
    TtfbWatchdogLayer::new()
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_left_50_ms_after_the_request_was_written() {
    let upstream = ProbeService::new(|_| Answer::never());
    let upload = ScriptedBody::of(["a "]).after(700 * MS).data("prompt");

    let (response, took) = call(watchdog(), upstream.clone(), request(upload)).await;

    assert_eq!(silence(&response), "ttfb-50ms");
    assert_eq!(took, 750 * MS);
    assert_eq!(upstream.seen()[0].body, "a prompt");
    assert_eq!(upstream.permits_out(), 0, "the call goes on");
}

#[tokio::test(start_paused = true)]
async fn a_head_is_not_a_byte() {
    let body = ScriptedBody::new().forever();
    let watch = body.watch();
    let body = std::sync::Mutex::new(Some(body));
    let upstream =
        ProbeService::new(move |_| Answer::ok(body.lock().unwrap().take().unwrap()).after(20 * MS));

    let (response, took) = call(watchdog(), upstream, short_request()).await;

    assert_eq!(silence(&response), "first-body-byte-50ms");
    assert_eq!(
        took,
        50 * MS,
        "counted from the request being written, not from the head"
    );
    assert!(watch.is_dropped(), "the call goes on");
}

#[tokio::test(start_paused = true)]
async fn a_healthy_upstream_is_not_delayed_and_its_first_byte_is_timed() {
    let upstream =
        ProbeService::new(|_| Answer::ok(ScriptedBody::new().after(25 * MS).data("hi")).after(20 * MS));

    let (response, took) = call(watchdog(), upstream, short_request()).await;

    assert_eq!(took, 45 * MS);
    assert_eq!(response.extensions().get(), Some(&FirstByte(45 * MS)));
    assert!(response.extensions().get::<RefusedBy>().is_none());
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_at_the_limit_is_in_time() {
    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])).after(50 * MS));
    let (response, took) = call(watchdog(), upstream, short_request()).await;
    assert_eq!((response.status().as_u16(), took), (200, 50 * MS));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_answer_counts_as_its_first_byte() {
    let ends: [fn() -> ScriptedBody; 4] = [
        || ScriptedBody::new().exact_length(),
        ScriptedBody::new,
        || ScriptedBody::new().trailers([("grpc-status", "0")]),
        || ScriptedBody::new().error("cut"),
    ];
    for end in ends {
        let (response, took) = call(
            watchdog(),
            ProbeService::new(move |_| Answer::ok(end())),
            short_request(),
        )
        .await;
        assert_eq!(
            (response.status().as_u16(), took),
            (200, Duration::ZERO),
            "{:?}",
            end()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_frame_is_not_a_byte() {
    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["", ""]).forever()));
    let (response, took) = call(watchdog(), upstream, short_request()).await;
    assert_eq!(
        (silence(&response).as_str(), took),
        ("first-body-byte-50ms", 50 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_passes_at_its_head_while_the_request_is_not_finished() {
    let upstream = service_fn(|request: Request<RequestBody<ScriptedBody>>| async move {
        tokio::spawn(request.into_body().collect()); // the connection goes on to send
        ok(ScriptedBody::new().after(SECOND).data("pong"))
    });
    let duplex = ScriptedBody::of(["ping"]).forever();

    let (response, took) = call(watchdog(), upstream, request(duplex)).await;

    assert_eq!((response.status().as_u16(), took), (200, Duration::ZERO));
    assert_eq!(
        response.extensions().get::<FirstByte>(),
        None,
        "nothing was measured"
    );
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "pong");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_unread_is_over() {
    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::new().forever()).before_body());
    let (response, took) = call(watchdog(), upstream, short_request()).await;
    assert_eq!(
        (silence(&response).as_str(), took),
        ("first-body-byte-50ms", 50 * MS)
    );
}

/// Takes a frame of the request every `pace`, at most `frames`, and answers at the end of the body.
async fn read_slowly(
    mut body: RequestBody<ScriptedBody>,
    pace: Duration,
    frames: usize,
) -> Result<Response<ScriptedBody>, String> {
    for _ in 0..frames {
        sleep(pace).await;
        if body.frame().await.is_none() {
            return ok(ScriptedBody::of(["read"]));
        }
    }
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_slow_upload_that_goes_on_is_never_given_up() {
    let upstream = service_fn(|request: Request<_>| read_slowly(request.into_body(), 9 * SECOND, usize::MAX));
    let (response, took) = call(watchdog(), upstream, request(ScriptedBody::of(["x"; 20]))).await;
    assert_eq!((response.status().as_u16(), took), (200, 21 * 9 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_stalls_is_given_up_10_s_after_its_last_progress() {
    let upstream = service_fn(|request: Request<_>| read_slowly(request.into_body(), 9 * SECOND, 3));
    let (response, took) = call(watchdog(), upstream, request(ScriptedBody::of(["x"; 20]))).await;
    assert_eq!((silence(&response).as_str(), took), ("upload-10s", 37 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_slow_to_send_is_not_a_silent_upstream() {
    let upload = || ScriptedBody::of(["a "]).after(60 * MINUTE).data("prompt");

    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])));
    let (response, took) = call(watchdog(), upstream, request(upload())).await;
    assert_eq!((response.status().as_u16(), took), (200, 60 * MINUTE));

    let elsewhere = service_fn(|request: Request<RequestBody<ScriptedBody>>| async move {
        tokio::spawn(request.into_body().collect())
            .await
            .unwrap()
            .unwrap();
        ok(ScriptedBody::of(["hi"]))
    });
    let (response, took) = call(watchdog(), elsewhere, request(upload())).await;
    assert_eq!(
        (response.status().as_u16(), took),
        (200, 60 * MINUTE),
        "read by another task"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_request_is_written_when_the_client_lets_go_of_it() {
    let upstream = service_fn(|request: Request<RequestBody<ScriptedBody>>| async move {
        sleep(2 * SECOND).await; // a connection is being made
        drop(request);
        std::future::pending::<Result<Response<ScriptedBody>, String>>().await
    });
    let (response, took) = call(watchdog(), upstream, request(ScriptedBody::new().exact_length())).await;
    assert_eq!((silence(&response).as_str(), took), ("ttfb-50ms", 2050 * MS));
}

#[tokio::test(start_paused = true)]
async fn each_limit_can_be_set() {
    let layer = watchdog().first_byte(200 * MS).upload(20 * SECOND);
    let silent = ProbeService::new(|_| Answer::never());
    let (response, took) = call(layer.clone(), silent, short_request()).await;
    assert_eq!((silence(&response).as_str(), took), ("ttfb-200ms", 200 * MS));

    let unread = service_fn(|request: Request<_>| read_slowly(request.into_body(), SECOND, 1));
    let (response, took) = call(layer, unread, request(ScriptedBody::of(["x"; 2]))).await;
    assert_eq!((silence(&response).as_str(), took), ("upload-20s", 21 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_has_its_own_limit_for_the_first_byte() {
    let mut attempt = Attempt::new(2, "slow", 150 * SECOND);
    attempt.first_byte = Some(20 * SECOND);
    let mut request = short_request();
    request.extensions_mut().insert(attempt);
    let (response, took) = call(watchdog(), ProbeService::new(|_| Answer::never()), request).await;
    assert_eq!((silence(&response).as_str(), took), ("ttfb-20s", 20 * SECOND));

    let mut request = short_request();
    request
        .extensions_mut()
        .insert(Attempt::new(1, "fast", 150 * SECOND));
    let (response, _) = call(watchdog(), ProbeService::new(|_| Answer::never()), request).await;
    assert_eq!(
        silence(&response),
        "ttfb-50ms",
        "a candidate without one has the layer's"
    );
}

#[tokio::test(start_paused = true)]
async fn zero_means_at_once_and_the_largest_duration_means_never() {
    let at_once = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])));
    let (response, _) = call(watchdog().first_byte(Duration::ZERO), at_once, short_request()).await;
    assert_eq!(response.status(), 200);

    let soon = |_| Answer::ok(ScriptedBody::of(["hi"])).after(10 * MS);
    let (response, _) = call(
        watchdog().first_byte(Duration::ZERO),
        ProbeService::new(soon),
        short_request(),
    )
    .await;
    assert_eq!(silence(&response), "ttfb-0ns");

    let late = |_| Answer::ok(ScriptedBody::of(["hi"])).after(1000 * 60 * MINUTE);
    let (response, _) = call(
        watchdog().first_byte(Duration::MAX),
        ProbeService::new(late),
        short_request(),
    )
    .await;
    assert_eq!(response.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_beats_a_timer_that_is_late() {
    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])).after(100 * MS));
    let call = tokio::spawn(watchdog().layer(upstream).oneshot(short_request()));
    tokio::task::yield_now().await;
    tokio::time::advance(SECOND).await; // both are over when the task runs again
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
}

/// An answer that another thread brings while this one looks at the timer.
#[tokio::test(start_paused = true)]
async fn the_inner_service_has_the_last_word() {
    let start = Instant::now();
    let upstream = service_fn(|_: Request<RequestBody<ScriptedBody>>| {
        let mut polls_when_over = 0;
        poll_fn(move |_| {
            polls_when_over += usize::from(start.elapsed() >= 50 * MS);
            match polls_when_over {
                2 => Poll::Ready(ok(ScriptedBody::of(["hi"]))),
                _ => Poll::Pending,
            }
        })
    });
    let (response, took) = call(watchdog(), upstream, short_request()).await;
    assert_eq!((response.status().as_u16(), took), (200, 50 * MS));
}

#[tokio::test(start_paused = true)]
async fn the_inner_call_is_dropped_with_the_refusal_and_not_only_with_the_future() {
    let upstream = ProbeService::new(|_| Answer::never());
    let mut service = watchdog().layer(upstream.clone());
    poll_fn(|cx| Service::<Request<ScriptedBody>>::poll_ready(&mut service, cx))
        .await
        .unwrap();
    let mut call = pin!(service.call(short_request()));
    assert_eq!(silence(&call.as_mut().await.unwrap()), "ttfb-50ms");
    assert_eq!(upstream.permits_out(), 0);
}

/// The task that reads the socket may have its turn after the one that waits for the answer.
#[tokio::test(start_paused = true)]
async fn after_a_stall_of_our_own_the_upstream_gets_the_lost_time_again() {
    let readable = Arc::new(Notify::new());
    let socket = readable.clone();
    let upstream = service_fn(move |_: Request<RequestBody<ScriptedBody>>| {
        let socket = socket.clone();
        async move {
            socket.notified().await;
            ok(ScriptedBody::of(["hi"]))
        }
    });
    let call = tokio::spawn(watchdog().layer(upstream).oneshot(short_request()));
    tokio::task::yield_now().await;
    tokio::time::advance(SECOND).await;
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    readable.notify_one();
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_stall_of_our_own_is_forgiven_once_and_for_no_longer_than_the_limit() {
    let call = tokio::spawn(call(
        watchdog(),
        ProbeService::new(|_| Answer::never()),
        short_request(),
    ));
    tokio::task::yield_now().await;
    tokio::time::advance(SECOND).await;
    let (response, took) = call.await.unwrap();
    assert_eq!(
        (silence(&response).as_str(), took),
        ("ttfb-50ms", SECOND + 50 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_drops_the_inner_call_at_once() {
    let upstream = ProbeService::new(|_| Answer::never());
    let call = watchdog()
        .first_byte(MINUTE)
        .layer(upstream.clone())
        .oneshot(short_request());
    assert!(tokio::time::timeout(SECOND, call).await.is_err());
    assert_eq!(upstream.permits_out(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_client_passes() {
    let upstream = ProbeService::new(|_| Answer::error("refused"));
    let error = watchdog()
        .layer(upstream)
        .oneshot(short_request())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "refused");
}

#[tokio::test(start_paused = true)]
async fn it_notes_itself_in_the_call_and_needs_none() {
    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])));
    let mut request = short_request();
    let facts = Call::of(request.extensions_mut());
    call(watchdog(), upstream.clone(), request).await;
    assert!(facts.has(LayerKind::TtfbWatchdog));

    let (response, _) = call(watchdog(), upstream, short_request()).await;
    assert_eq!(response.status(), 200);
}
