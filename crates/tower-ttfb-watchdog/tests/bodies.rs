//! Both bodies: what the watchdog changes, and what it leaves.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use std::{convert::Infallible, pin::Pin, time::Duration};
use support::{MINUTE, MS, SECOND, call, request, short_request};
use testkit::{Answer, ProbeService, ScriptedBody};
use tokio::time::{Instant, sleep, timeout};
use tower::service_fn;
use tower_ai_core::{Silence, SilentPhase};
use tower_ttfb_watchdog::{RequestBody, ResponseBody, TtfbWatchdogLayer};

/// The body of an upstream that answers so, behind the watchdog.
async fn answered(body: ScriptedBody) -> Pin<Box<ResponseBody<ScriptedBody>>> {
    let body = std::sync::Mutex::new(Some(body));
    let upstream = ProbeService::new(move |_| Answer::ok(body.lock().unwrap().take().unwrap()));
    let (response, _) = call(TtfbWatchdogLayer::new(), upstream, short_request()).await;
    Box::pin(response.into_body())
}

async fn next(body: &mut Pin<Box<ResponseBody<ScriptedBody>>>) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test(start_paused = true)]
async fn content_and_then_a_minute_of_silence_is_an_error() {
    let script = ScriptedBody::of(["one ", "two "])
        .after(59 * SECOND)
        .data("three")
        .forever();
    let watch = script.watch();
    let mut body = answered(script).await;
    for expected in ["one ", "two ", "three"] {
        assert_eq!(next(&mut body).await, expected);
    }

    let start = Instant::now();
    let error = body.frame().await.unwrap().unwrap_err();

    assert_eq!(start.elapsed(), MINUTE);
    let silence = error.downcast_ref::<Silence>().unwrap();
    assert_eq!(
        silence,
        &Silence {
            phase: SilentPhase::Gap,
            limit: MINUTE
        }
    );
    assert_eq!(error.to_string(), "gap-60s");
    assert!(watch.is_dropped(), "the call goes on");
    assert!(body.frame().await.is_none() && body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_slow_to_ask_is_not_a_silent_upstream() {
    let mut body = answered(
        ScriptedBody::of(["one "])
            .data("two ")
            .after(59 * SECOND)
            .data("three"),
    )
    .await;
    assert_eq!(next(&mut body).await, "one ");
    sleep(10 * MINUTE).await;
    assert_eq!(next(&mut body).await, "two ");
    sleep(10 * MINUTE).await;
    assert_eq!(next(&mut body).await, "three", "59 s after it was asked for");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_asked_and_went_away_is_not_a_silent_upstream() {
    let mut body = answered(ScriptedBody::of(["one "]).after(11 * MINUTE).data("two")).await;
    assert_eq!(next(&mut body).await, "one ");
    assert!(
        timeout(SECOND, body.frame()).await.is_err(),
        "asked, nothing there"
    );
    sleep(10 * MINUTE).await;
    assert_eq!(next(&mut body).await, "two", "59 s after it was asked for again");
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_comes_at_the_limit_is_in_time() {
    let mut body = answered(ScriptedBody::of(["one "]).after(MINUTE).data("two")).await;
    assert_eq!(next(&mut body).await, "one ");
    assert_eq!(next(&mut body).await, "two");
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_tokens_is_no_silence() {
    let script = (0..120).fold(ScriptedBody::of(["start"]), |body, _| {
        body.after(30 * SECOND).data("token")
    });
    let collected = answered(script).await.collect().await.unwrap();
    assert_eq!(collected.to_bytes().len(), "start".len() + 120 * "token".len());
}

#[tokio::test(start_paused = true)]
async fn the_first_frame_is_given_back_with_the_size_it_had() {
    let mut body = answered(ScriptedBody::of(["hello ", "world"]).exact_length()).await;
    assert_eq!(body.size_hint().exact(), Some(11));
    assert_eq!(next(&mut body).await, "hello ");
    assert_eq!(body.size_hint().exact(), Some(5));

    let mut body = answered(ScriptedBody::of(["hello"]).exact_length()).await;
    assert!(!body.is_end_stream(), "a frame is held");
    assert_eq!(next(&mut body).await, "hello");
    assert!(body.is_end_stream());
}

/// Each frame of a request as the inner service gets it: its data, and the size left before it.
async fn taken(body: ScriptedBody) -> Vec<(Bytes, Option<u64>)> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let send = std::sync::Mutex::new(Some(send));
    let upstream = service_fn(|request: Request<RequestBody<ScriptedBody>>| {
        let send = send.lock().unwrap().take().unwrap();
        async move {
            let mut body = request.into_body();
            let mut frames = Vec::new();
            while !body.is_end_stream() {
                let size = body.size_hint().exact();
                let Some(frame) = body.frame().await else { break };
                frames.push((frame.unwrap().into_data().unwrap(), size));
            }
            send.send(frames).unwrap();
            Ok::<_, Infallible>(Response::new(ScriptedBody::of(["read"])))
        }
    });
    call(TtfbWatchdogLayer::new(), upstream, request(body)).await;
    receive.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_large_frame_of_the_request_is_cut_without_a_copy() {
    const KIB: usize = 1024;
    let large: Bytes = (0..40 * KIB).map(|n| n as u8).collect::<Vec<_>>().into();

    let frames = taken(
        ScriptedBody::new()
            .data("small")
            .data(large.clone())
            .data("last")
            .exact_length(),
    )
    .await;

    let sizes: Vec<_> = frames.iter().map(|(data, _)| data.len()).collect();
    assert_eq!(sizes, [5, 16 * KIB, 16 * KIB, 8 * KIB, 4]);
    assert_eq!(frames[2].0.as_ptr(), large[16 * KIB..].as_ptr());
    assert_eq!(
        frames[1..4]
            .iter()
            .flat_map(|(data, _)| data)
            .copied()
            .collect::<Bytes>(),
        large
    );
    let mut left = sizes.iter().sum::<usize>() as u64;
    for (data, size) in frames {
        assert_eq!(size, Some(left));
        left -= data.len() as u64;
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_of_the_request_pass() {
    let upstream = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hi"])));
    let upload = ScriptedBody::of(["prompt"]).trailers([("x-sum", "6")]);
    call(TtfbWatchdogLayer::new(), upstream.clone(), request(upload)).await;
    assert_eq!(upstream.seen()[0].trailers.as_ref().unwrap()["x-sum"], "6");
}

#[tokio::test(start_paused = true)]
async fn trailers_are_the_end_of_a_request() {
    let upstream = service_fn(|request: Request<RequestBody<ScriptedBody>>| async move {
        let mut body = request.into_body();
        while body.frame().await.unwrap().unwrap().is_data() {}
        std::future::pending::<Result<Response<ScriptedBody>, Infallible>>().await
    });
    let upload = ScriptedBody::of(["prompt"]).trailers([("x-sum", "6")]);
    let (response, took) = call(TtfbWatchdogLayer::new(), upstream, request(upload)).await;
    assert_eq!(
        (support::silence(&response).as_str(), took),
        ("ttfb-50ms", 50 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_of_one_large_frame_is_written_with_its_last_piece() {
    const PIECES: u32 = 8;
    let upstream = service_fn(|request: Request<RequestBody<ScriptedBody>>| async move {
        let mut body = request.into_body();
        for _ in 0..PIECES {
            sleep(SECOND).await;
            body.frame().await.unwrap().unwrap();
        }
        std::future::pending::<Result<Response<ScriptedBody>, Infallible>>().await
    });
    let upload = ScriptedBody::of([vec![0; PIECES as usize * 16 * 1024]]).exact_length();
    let (response, took) = call(TtfbWatchdogLayer::new(), upstream, request(upload)).await;
    let expected: Duration = PIECES * SECOND + 50 * MS;
    assert_eq!(
        (support::silence(&response).as_str(), took),
        ("ttfb-50ms", expected)
    );
}
