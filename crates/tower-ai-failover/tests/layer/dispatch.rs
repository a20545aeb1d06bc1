//! Which attempts there are, when, and what is left behind.

use crate::support::*;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};
use testkit::{Answer, ProbeService, ScriptedBody, openai, openai::Chat};
use tokio::time::Instant;
use tower::{ServiceExt, service_fn};
use tower_ai_core::{
    Attempt, Buffered, Call, Deadline, LayerKind, Refusal, RefusalFormat, RefusalKind, RefusedBy, ServedBy,
    Silence, SilentPhase, UsageState,
};
use tower_ai_failover::{FailoverLayer, Routes, Upstream};
use tower_layer::Layer;

fn good() -> Answer {
    Chat::new(["hello"]).completion().into()
}

fn shares(probe: &ProbeService) -> Vec<Duration> {
    let seen = probe.seen().into_iter();
    seen.map(|seen| seen.extensions.get::<Attempt>().unwrap().share)
        .collect()
}

fn states(call: &Call) -> Vec<UsageState> {
    call.meter()
        .attempts()
        .iter()
        .map(|attempt| attempt.state)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn three_silent_candidates_get_150_s_each() {
    let probe = scripted([Answer::never(), Answer::never(), Answer::never()]);
    let start = Instant::now();
    let response = send(&layer(3).attempts(3), &probe, chat(CHAT)).await;
    assert_eq!(shares(&probe), [SECOND * 150; 3]);
    assert_eq!(start.elapsed(), SECOND * 450);
    assert_eq!(response.status(), 503);
}

#[tokio::test(start_paused = true)]
async fn time_that_the_first_did_not_use_goes_to_the_second() {
    let probe = scripted([Answer::error("broke").after(SECOND * 2), good()]);
    let _ = send(&layer(3), &probe, chat(CHAT)).await;
    assert_eq!(shares(&probe), [SECOND * 150, SECOND * 224]);
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_deadline_is_shared_out() {
    let probe = scripted([Answer::never(), good()]);
    let mut request = chat(CHAT);
    request
        .extensions_mut()
        .insert(Deadline((Instant::now() + SECOND * 54).into_std()));
    let response = send(&layer(2), &probe, request).await;
    assert_eq!(reasons(&response), ["a start-limit-22.5s", "b served"]);
}

#[tokio::test(start_paused = true)]
async fn under_a_50_ms_watchdog_the_second_starts_within_100_ms() {
    let refusal = Refusal::new(
        LayerKind::TtfbWatchdog,
        RefusalKind::Timeout,
        "upstream_silent",
        "silent",
    );
    let (head, _) = refusal
        .for_this_attempt()
        .into_response::<()>(RefusalFormat::OpenAi)
        .into_parts();
    let silence = Silence {
        phase: SilentPhase::FirstByte,
        limit: Duration::from_millis(50),
    };
    let silent = Answer::status(504, ScriptedBody::of(["silent"]))
        .extension(head.extensions.get::<RefusedBy>().unwrap().clone())
        .extension(silence)
        .after(Duration::from_millis(50));
    let probe = scripted([silent, good()]);
    let start = Instant::now();
    let response = send(&layer(2), &probe, chat(CHAT)).await;
    assert_eq!(reasons(&response), ["a ttfb-50ms", "b served"]);
    assert!(
        start.elapsed() <= Duration::from_millis(51),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_told_wait_that_fits_is_waited_for_once() {
    let limited = || Answer::from(openai::rate_limited(20));
    let probe = scripted([limited(), good()]);
    let start = Instant::now();
    let response = send(&layer(1), &probe, chat(CHAT)).await;
    assert_eq!(served_by(&response), "a");
    assert!(
        start.elapsed() >= SECOND * 20 && start.elapsed() <= SECOND * 24,
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_round_waits_with_jitter_and_ends_after_5_attempts() {
    let probe = ProbeService::new(|_| Answer::from(openai::server_error()));
    let start = Instant::now();
    let response = send(&layer(2), &probe, chat(CHAT)).await;
    assert_eq!(probe.calls(), 5);
    // Up to 0.5 s before the second attempt at each, up to 1 s before the third at the first.
    assert!(
        start.elapsed() > Duration::ZERO && start.elapsed() < SECOND * 2,
        "{:?}",
        start.elapsed()
    );
    let expected = ["a", "b", "a", "b", "a"].map(|id| format!("{id} status-500"));
    assert_eq!(reasons(&response), expected);
}

#[tokio::test(start_paused = true)]
async fn all_waiting_stays_within_30_s() {
    let probe = ProbeService::new(|_| Answer::from(openai::rate_limited(12)));
    let start = Instant::now();
    let response = send(&layer(1), &probe, chat(CHAT)).await;
    assert_eq!(response.status(), 429);
    assert!(start.elapsed() <= SECOND * 30, "{:?}", start.elapsed());
    assert!((2..=3).contains(&probe.calls()), "{}", probe.calls());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_waits() {
    let mut took = Vec::new();
    for _ in 0..2 {
        let probe = ProbeService::new(|_| Answer::from(openai::server_error()));
        let start = Instant::now();
        let _ = send(&layer(1), &probe, chat(CHAT)).await;
        took.push(start.elapsed());
    }
    assert_eq!(took[0], took[1]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_gone_before_the_next_one_starts() {
    let log = Log::default();
    let logged = log.clone();
    let inner = service_fn(move |request: Request<Buffered<Full<Bytes>>>| {
        let n = request.extensions().get::<Attempt>().unwrap().n;
        logged.note(format!("start {n}"));
        let end = logged.guard(format!("end {n}"));
        async move {
            let _end = end;
            tokio::time::sleep(SECOND * if n == 3 { 1 } else { 1000 }).await;
            Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::from("late")))
        }
    });
    let _ = layer(3).layer(inner).oneshot(chat(CHAT)).await.unwrap();
    let expected = [
        "start 1", "end 1", "start 2", "end 2", "start 3", "end 3", "start 1",
    ];
    assert_eq!(log.entries()[..6], expected[..6]);
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_loser_is_gone_before_the_next_one_starts() {
    let silent = ScriptedBody::of([": ping\n\n"]).forever();
    let watch = silent.watch();
    let (log, seen) = (Log::default(), watch.clone());
    let answers = Mutex::new(vec![
        Chat::new(["hello"]).stream().into(),
        Answer::ok(silent).header("content-type", "text/event-stream"),
    ]);
    let logged = log.clone();
    let probe = ProbeService::new(move |n| {
        logged.note(format!("start {n}, first body gone: {}", seen.is_dropped()));
        answers.lock().unwrap().pop().unwrap()
    });
    let _ = send(&layer(2), &probe, chat(CHAT_STREAM)).await;
    assert_eq!(
        log.entries(),
        [
            "start 0, first body gone: false",
            "start 1, first body gone: true"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn every_attempt_carries_the_original_bytes_and_its_own_head() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let inner = service_fn(move |request: Request<Buffered<Full<Bytes>>>| {
        let bytes = request.body().bytes().unwrap();
        let key = request.headers()["authorization"].to_str().unwrap().to_owned();
        noted
            .lock()
            .unwrap()
            .push((bytes.clone(), request.uri().to_string(), key));
        async { Err::<Response<Full<Bytes>>, _>(std::io::Error::other("broke")) }
    });
    let upstreams = [
        Upstream::openai("a", "http://a/v1").key("key-a"),
        Upstream::openai("b", "http://b/v1").key("key-b").named("other"),
        Upstream::openai("c", "http://c/v1").key("key-c"),
    ];
    let layer = FailoverLayer::new(Routes::new().model("gpt-5", upstreams))
        .unwrap()
        .attempts(3);
    let prompt = Bytes::from_static(CHAT.as_bytes());
    let request = Request::post("/v1/chat/completions?x=1").header("authorization", "Bearer caller");
    let _ = layer
        .layer(inner)
        .oneshot(request.body(Full::new(prompt.clone())).unwrap())
        .await
        .unwrap();

    let seen = seen.lock().unwrap();
    assert_eq!(
        (seen[0].0.as_ptr(), seen[2].0.as_ptr()),
        (prompt.as_ptr(), prompt.as_ptr())
    );
    assert_eq!(seen[1].0, CHAT.replace("gpt-5", "other"));
    let heads: Vec<_> = seen
        .iter()
        .map(|(_, uri, key)| (uri.as_str(), key.as_str()))
        .collect();
    assert_eq!(
        heads,
        [
            ("http://a/v1/chat/completions?x=1", "Bearer key-a"),
            ("http://b/v1/chat/completions?x=1", "Bearer key-b"),
            ("http://c/v1/chat/completions?x=1", "Bearer key-c"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_meter_tells_what_became_of_each_attempt() {
    let probe = scripted([openai::server_error().into(), Answer::error("broke"), good()]);
    let (response, call) = send_call(&layer(3), &probe, chat(CHAT)).await;
    assert_eq!(
        states(&call),
        [
            UsageState::NotBilled,
            UsageState::MaybeBilled,
            UsageState::Answered
        ]
    );
    assert_eq!(call.meter().served_attempt().unwrap().n, 3);
    let served = response.extensions().get::<ServedBy>().unwrap();
    assert_eq!(
        (&*served.candidate, served.region.as_deref(), served.attempt),
        ("c", Some("eu"), 3)
    );
    assert!(call.has(LayerKind::Failover));
}

/// A limit around the layer may end the call while its future is still there: what settles then has to know.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_in_the_meter_while_it_is_under_way() {
    let mut request = chat(CHAT);
    let call = Call::of(request.extensions_mut());
    let mut future = pin!(layer(1).layer(scripted([Answer::never()])).oneshot(request));
    assert!(tokio::time::timeout(SECOND, &mut future).await.is_err());
    assert_eq!(states(&call), [UsageState::Sent]);
}

/// Polls a call to completion or drops it after `n` polls; whether it was complete, and its facts.
async fn dropped_after(n: usize, probe: &ProbeService) -> (bool, Call) {
    let mut request = chat(CHAT_STREAM);
    let call = Call::of(request.extensions_mut());
    let mut future = pin!(layer(2).layer(probe.clone()).oneshot(request));
    let mut left = n;
    let is_done = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    });
    (is_done.await, call)
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_in_any_state_ends_the_attempt() {
    let mut states_met = Vec::new();
    for n in 1.. {
        assert!(n < 100, "the call is not over after {n} polls");
        let watches = Arc::new(Mutex::new(Vec::new()));
        let kept = watches.clone();
        // Rejected with a slow body, then a second round after waits, then a slow prelude.
        let probe = ProbeService::new(move |attempt| {
            let slow = ScriptedBody::new().after(Duration::from_millis(5));
            let body = match attempt {
                0..3 => slow.data("no").after(Duration::from_millis(5)),
                _ => slow
                    .data(": ping\n\n")
                    .after(SECOND)
                    .data(Chat::new(["x"]).stream().bytes()),
            };
            kept.lock().unwrap().push(body.watch());
            let answer = Answer::status(if attempt < 3 { 500 } else { 200 }, body).pending(1);
            answer
                .header("content-type", "text/event-stream")
                .after(Duration::from_millis(3))
        })
        .ready_after(1);
        let (is_done, call) = dropped_after(n, &probe).await;
        assert_eq!(probe.permits_out(), 0, "after {n} polls the inner call goes on");
        assert!(
            watches.lock().unwrap().iter().all(testkit::BodyWatch::is_dropped),
            "after {n} polls"
        );
        states_met.extend(call.meter().attempts().last().map(|attempt| attempt.state));
        if is_done {
            break;
        }
    }
    for state in [
        UsageState::MaybeBilled,
        UsageState::NotBilled,
        UsageState::Answered,
    ] {
        assert!(states_met.contains(&state), "{state:?}");
    }
    assert!(
        !states_met.contains(&UsageState::Sent),
        "an attempt was left open"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_replay_limit_gets_one_attempt() {
    let layer = || layer(2).replay_limit(10);
    let mut request = chat(CHAT);
    Call::of(request.extensions_mut()).set_ai(tower_ai_core::AiCall::new(
        tower_ai_core::Operation::ChatCompletions,
        "gpt-5",
    ));
    let probe = scripted([good()]);
    let response = send(&layer(), &probe, request).await;
    assert_eq!(served_by(&response), "a");
    assert_eq!(probe.seen()[0].body, CHAT);

    let mut request = chat(CHAT);
    Call::of(request.extensions_mut()).set_ai(tower_ai_core::AiCall::new(
        tower_ai_core::Operation::ChatCompletions,
        "gpt-5",
    ));
    let probe = scripted([Answer::from(openai::server_error())]);
    let response = send(&layer(), &probe, request).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (503, 1));
}

#[tokio::test(start_paused = true)]
async fn a_grpc_call_gets_one_attempt_and_its_answer_at_once() {
    let layer = FailoverLayer::new(
        Routes::new().any([Upstream::plain("a", "http://a"), Upstream::plain("b", "http://b")]),
    );
    let layer = layer.unwrap();
    let request = || {
        // A conversation: the caller sends on only when it was answered.
        let body = ScriptedBody::of(["hello"]).forever();
        Request::post("/pkg.Service/Chat")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .unwrap()
    };
    let probe = scripted([Answer::ok(ScriptedBody::new().forever()).before_body()]);
    let response = layer.layer(probe.clone()).oneshot(request()).await.unwrap();
    assert_eq!(served_by_any(&response), "a");
    assert_eq!(probe.seen()[0].uri, "http://a/pkg.Service/Chat");

    let probe = scripted([Answer::error("broke")]);
    let response = layer.layer(probe.clone()).oneshot(request()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["grpc-status"]),
        (200, &"14".parse().unwrap())
    );
    assert_eq!(probe.calls(), 1);
}

fn any_duration() -> impl Strategy<Value = Duration> {
    let any = (any::<u64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos));
    let usual = (0..1000u64).prop_map(Duration::from_secs);
    prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), any, usual]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn times_of_any_length_can_be_set(
        deadline in any_duration(),
        waiting in any_duration(),
        first_byte in any_duration(),
        of_the_caller in proptest::option::of(any_duration()),
        told in any::<u64>(),
    ) {
        let first_byte = first_byte.max(Duration::from_nanos(1));
        let upstream = Upstream::openai("a", "http://a/v1").first_byte(first_byte);
        let layer = FailoverLayer::new(Routes::new().model("gpt-5", [upstream])).unwrap();
        let layer = layer.deadline(deadline).waiting(waiting);
        // A wait that was told, a wait of our own, a body that is read, a stream until the deadline.
        let stream = ScriptedBody::of([Chat::new(["x"]).stream().frames[1].clone()]).forever();
        let stream = Answer::ok(stream).header("content-type", "text/event-stream");
        let limited = openai::rate_limited(told).into();
        let slow = Answer::status(500, ScriptedBody::new().forever());
        let probe = scripted([limited, Answer::error("broke"), slow, stream]);
        let status = testkit::in_paused_time(async {
            let mut request = chat(CHAT_STREAM);
            let end = of_the_caller.and_then(|limit| Instant::now().into_std().checked_add(limit));
            if let Some(end) = end {
                request.extensions_mut().insert(Deadline(end));
            }
            send(&layer, &probe, request).await.status()
        });
        prop_assert!([200, 429, 503].contains(&status.as_u16()), "{status}");
        if of_the_caller.unwrap_or(deadline).is_zero() {
            prop_assert_eq!(probe.calls(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_leave_a_call_all_its_attempts() {
    let layer = layer(1).deadline(Duration::MAX).waiting(Duration::MAX);
    let probe = scripted([Answer::error("broke"), Answer::error("broke"), good()]);
    let response = send(&layer, &probe, chat(CHAT)).await;
    assert_eq!((response.status().as_u16(), probe.calls()), (200, 3));
}

#[tokio::test(start_paused = true)]
async fn a_grpc_method_named_unary_is_read_whole_and_fails_over() {
    let routes = Routes::new().any([Upstream::plain("a", "http://a"), Upstream::plain("b", "http://b")]);
    let layer = FailoverLayer::new(routes)
        .unwrap()
        .unary_grpc(["/pkg.Service/Get"]);
    let request = Request::post("/pkg.Service/Get").header("content-type", "application/grpc");
    let request = request
        .body(ScriptedBody::of(["hel"]).pending().data("lo"))
        .unwrap();

    let probe = ProbeService::new(|n| match n {
        0 => Answer::error("broke"),
        _ => Answer::ok(ScriptedBody::of(["there"])).header("content-type", "application/grpc"),
    });
    let response = layer.layer(probe.clone()).oneshot(request).await.unwrap();
    assert_eq!(served_by_any(&response), "b");
    let bodies: Vec<_> = probe.seen().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, ["hello", "hello"]);
}

fn served_by_any<B>(response: &Response<B>) -> &str {
    &response.extensions().get::<ServedBy>().unwrap().candidate
}

#[tokio::test(start_paused = true)]
async fn a_document_that_is_under_way_is_not_cut_short_by_the_share() {
    let whole = Chat::new(["hello"]).completion().bytes();
    let body = ScriptedBody::of([whole.slice(..20)])
        .after(SECOND * 300)
        .data(whole.slice(20..));
    let probe = scripted([Answer::ok(body).header("content-type", "application/json")]);
    let start = Instant::now();
    let response = send(&layer(2), &probe, chat(CHAT)).await;
    assert_eq!(
        start.elapsed(),
        SECOND * 225,
        "from then on it is passed on as it comes"
    );
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), whole);
    assert_eq!(start.elapsed(), SECOND * 300);
}

#[tokio::test(start_paused = true)]
async fn with_commit_at_first_byte_nothing_is_held() {
    let role = Chat::new(["x"]).stream().frames[0].clone();
    let body = ScriptedBody::of([role.clone()]).error("broke");
    let probe = scripted([Answer::ok(body).header("content-type", "text/event-stream")]);
    let response = send(&layer(2).commit_at_first_byte(true), &probe, chat(CHAT_STREAM)).await;
    assert_eq!(served_by(&response), "a");
    let text = text(response).await;
    assert!(text.contains("stream_interrupted"), "{text}");

    let half = Chat::new(["hello"]).completion().bytes().slice(..40);
    let probe = scripted([
        Answer::ok(ScriptedBody::of([half]).error("broke")).header("content-type", "application/json")
    ]);
    let response = send(&layer(2).commit_at_first_byte(true), &probe, chat(CHAT)).await;
    assert_eq!(
        response.into_body().collect().await.unwrap_err().to_string(),
        "broke"
    );
}

#[tokio::test(start_paused = true)]
async fn silence_after_the_head_fails_over_even_with_commit_at_first_byte() {
    let silent = Answer::ok(ScriptedBody::new().forever()).header("content-type", "text/event-stream");
    let probe = scripted([silent, Chat::new(["x"]).stream().into()]);
    let response = send(&layer(2).commit_at_first_byte(true), &probe, chat(CHAT_STREAM)).await;
    assert_eq!(served_by(&response), "b");
}

#[tokio::test(start_paused = true)]
async fn layers_further_in_share_the_call_and_the_callers_extensions() {
    #[derive(Clone, PartialEq, Debug)]
    struct Mine(u8);
    let probe = scripted([good()]);
    let mut request = chat(CHAT);
    request.extensions_mut().insert(Mine(7));
    let (_, call) = send_call(&layer(1), &probe, request).await;
    let mut seen = probe.seen()[0].extensions.clone();
    assert_eq!(seen.get(), Some(&Mine(7)));
    Call::of(&mut seen).meter().sent(9);
    assert_eq!(call.meter().attempts().last().unwrap().n, 9);
    assert_eq!(&*call.ai().unwrap().model, "gpt-5");
    let attempt = seen.get::<Attempt>().unwrap();
    assert_eq!(
        (attempt.n, &*attempt.candidate, attempt.region.as_deref()),
        (1, "a", Some("eu"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_whole_document_keeps_its_length_and_frames() {
    let sample = Chat::new(["hello"]).completion();
    let length = sample.bytes().len() as u64;
    let answer = Answer::from(sample)
        .header("content-length", &length.to_string())
        .header("connection", "keep-alive");
    let response = send(&layer(1), &scripted([answer]), chat(CHAT)).await;
    assert_eq!(response.headers()["content-length"], length.to_string());
    assert!(!response.headers().contains_key("connection"));
    assert_eq!(response.body().size_hint().exact(), Some(length));
}
