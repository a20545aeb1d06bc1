//! What an answer tells is in the meter before the caller can act on it, and what was not asked for is not seen.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use proptest::prelude::*;
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use testkit::{
    ALL_ENDS, Answer, Contract, End, ProbeService, Sample, ScriptedBody, anthropic, contract, openai::Chat,
};
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_ai_core::{
    Attempt, AttemptUsage, Basis, Call, Estimate, LayerKind, NanoUsd, Outcome, Refusal, RefusalKind,
    Settlement, TokenCounts, UsageState, settlement, usd,
};
use tower_ai_usage::{Price, Prices, UsageBody, UsageLayer};

const STREAM: &str = r#"{"model":"gpt-5","stream":true,"messages":[]}"#;
const STREAM_ASKED: &str =
    r#"{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
const WHOLE: &str = r#"{"model":"gpt-5","messages":[]}"#;
const CLAUDE: &str = r#"{"model":"claude-sonnet-4-5","max_tokens":9,"stream":true,"messages":[]}"#;

testkit::contract!(an_unknown_call_keeps_the_contract: Contract::new(layer()));
testkit::contract!(an_ai_call_keeps_the_contract: Contract::new(layer()).request(|| chat(WHOLE)));
testkit::contract!(a_stream_that_was_asked_for_usage_keeps_the_contract: streaming(STREAM_ASKED));

/// All of the contract, except that the request is changed: it asks for usage.
#[test]
fn a_stream_that_is_stripped_keeps_the_contract() {
    let contract = || streaming(STREAM).inexact_size().other_frames();
    testkit::in_paused_time(async {
        contract::the_polled_instance_is_called(&contract()).await;
        contract::nothing_is_polled_while_the_answer_is_pending(&contract()).await;
        contract::nothing_is_polled_while_the_body_is_pending(&contract()).await;
        contract::the_head_passes_unchanged(&contract()).await;
        contract::bodies_pass_unchanged(&contract()).await;
        contract::each_end_of_a_body_settles_once(&contract()).await;
        contract::a_failed_call_settles_once(&contract()).await;
        contract::a_future_dropped_after_any_poll_settles_once(&contract()).await;
    });
}

fn streaming(request: &'static str) -> Contract {
    let layer = ServiceBuilder::new()
        .layer(layer())
        .map_response(|mut response: Response<ScriptedBody>| {
            let value = header::HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, value);
            response
        });
    Contract::new(layer).request(move || chat(request))
}

/// Input 1 USD and output 2 USD for a million tokens of any model of these tests.
fn prices() -> Prices {
    let price = Price::per_million(usd!(1), usd!(2));
    Prices::none()
        .with_price("gpt-5", price)
        .with_price("claude-sonnet-4-5", price)
}

fn layer() -> UsageLayer {
    UsageLayer::new(&prices())
}

fn chat(body: &'static str) -> Request<ScriptedBody> {
    post("/v1/chat/completions", body)
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<ScriptedBody> {
    Request::post(path).body(ScriptedBody::of([body.into()])).unwrap()
}

fn answer(sample: &Sample, body: ScriptedBody) -> Answer {
    let headers = &sample.headers;
    headers
        .iter()
        .fold(Answer::status(sample.status, body), |answer, (name, value)| {
            answer.header(name, value)
        })
}

/// One call: its facts, and its answer.
struct Sent {
    call: Call,
    response: Response<UsageBody<ScriptedBody>>,
    probe: ProbeService,
}

async fn send(request: Request<ScriptedBody>, answer: impl Fn() -> Answer + Send + Sync + 'static) -> Sent {
    send_through(layer(), request, answer).await
}

async fn send_through(
    layer: UsageLayer,
    mut request: Request<ScriptedBody>,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> Sent {
    let call = Call::of(request.extensions_mut());
    let probe = ProbeService::new(move |_| answer());
    let response = layer.layer(probe.clone()).oneshot(request).await.unwrap();
    Sent {
        call,
        response,
        probe,
    }
}

impl Sent {
    fn meter(&self) -> AttemptUsage {
        meter(&self.call)
    }

    async fn body(self) -> Bytes {
        self.response.into_body().collect().await.unwrap().to_bytes()
    }
}

fn meter(call: &Call) -> AttemptUsage {
    call.meter().served_attempt().expect("an attempt was sent")
}

/// The data frames of a body.
async fn frames(body: impl Body<Data = Bytes, Error: std::fmt::Debug>) -> Vec<Bytes> {
    let mut body = pin!(body);
    let mut frames = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        frames.extend(frame.unwrap().into_data());
    }
    frames
}

fn cut(bytes: &Bytes, at: &[usize]) -> Vec<Bytes> {
    let mut at: Vec<_> = at.iter().map(|at| at % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|ends| bytes.slice(ends[0]..ends[1])).collect()
}

fn with_crlf(bytes: &Bytes) -> Bytes {
    String::from_utf8(bytes.to_vec())
        .unwrap()
        .replace('\n', "\r\n")
        .into()
}

// === what was not asked for is not seen ===

#[tokio::test(start_paused = true)]
async fn usage_is_asked_for_and_all_else_of_the_request_is_kept() {
    let mut request = post(
        "/v1/chat/completions",
        r#"{ "model":"gpt-5", "stream":true,  "stream_options":{"include_obfuscation":false}, "messages":[] }"#,
    );
    let length = request.body().size_hint().lower();
    request
        .headers_mut()
        .insert(header::CONTENT_LENGTH, length.into());
    let sent = send(request, || Answer::ok(ScriptedBody::new())).await;
    let seen = &sent.probe.seen()[0];
    assert_eq!(
        seen.body,
        r#"{ "model":"gpt-5", "stream":true,  "stream_options":{"include_usage":true,"include_obfuscation":false}, "messages":[] }"#
    );
    assert_eq!(seen.headers[header::CONTENT_LENGTH], seen.body.len().to_string());
}

proptest! {
    /// Byte for byte what the upstream sends when it is not asked, at every split, in LF and in CRLF.
    #[test]
    fn a_stripped_stream_is_the_stream_that_was_asked_for(
        at in proptest::collection::vec(0_usize..4_000, 0..12),
        crlf: bool,
        exact: bool,
    ) {
        let told = Chat::new(["Good ", "morning, \"usage\":null ", "\u{1F600}\n"]).usage(11, 7);
        let ends = if crlf { with_crlf } else { Bytes::clone };
        let (asked, expected) = (ends(&told.stream_with_usage().bytes()), ends(&told.stream().bytes()));
        let pieces = cut(&asked, &at);
        testkit::in_paused_time(async {
            let sample = told.stream();
            let sent = send(chat(STREAM), move || {
                let body = ScriptedBody::of(pieces.clone());
                answer(&sample, if exact { body.exact_length() } else { body })
            });
            let sent = sent.await;
            let call = sent.call.clone();
            let frames = frames(sent.response.into_body()).await;
            assert!(frames.iter().all(|frame| !frame.is_empty()), "an empty frame was passed on");
            assert_eq!(Bytes::from(frames.concat()), expected);
            assert_eq!(meter(&call).counts, TokenCounts::new(11, 7));
            assert_eq!(meter(&call).state, UsageState::Reported);
        });
    }

    #[test]
    fn a_stream_that_was_asked_for_usage_passes_as_it_is(at in proptest::collection::vec(0_usize..4_000, 0..12)) {
        let told = Chat::new(["Good ", "morning"]).usage(11, 7);
        let pieces = cut(&told.stream_with_usage().bytes(), &at);
        testkit::in_paused_time(async {
            let (sample, expected) = (told.stream(), pieces.clone());
            let sent = send(chat(STREAM_ASKED), move || {
                answer(&sample, ScriptedBody::of(pieces.clone()))
            });
            let sent = sent.await;
            assert_eq!(sent.probe.seen()[0].body, STREAM_ASKED);
            let call = sent.call.clone();
            assert_eq!(frames(sent.response.into_body()).await, expected, "the frames were cut anew");
            assert_eq!(meter(&call).counts, TokenCounts::new(11, 7));
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_has_no_choices_but_something_to_say_is_kept() {
    let chunk = |member: &str| format!("data: {{\"id\":\"c\",\"choices\":[]{member}}}\n\n");
    let moderation = r#","moderation":{"flagged":false}"#;
    let usage = r#","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#;
    let told = [
        chunk(r#","prompt_filter_results":[],"usage":null"#),
        chunk(usage),
        chunk(&format!(r#"{moderation},"usage":null"#)),
        "data: [DONE]\n\n".to_owned(),
    ];
    let kept = [
        chunk(r#","prompt_filter_results":[]"#),
        chunk(moderation),
        "data: [DONE]\n\n".to_owned(),
    ];
    let sent = send(chat(STREAM), move || {
        answer(&Sample::events([""]), ScriptedBody::of(told.clone()))
    })
    .await;
    let call = sent.call.clone();
    assert_eq!(frames(sent.response.into_body()).await, kept.map(Bytes::from));
    assert_eq!(meter(&call).counts, TokenCounts::new(3, 4));
}

#[tokio::test(start_paused = true)]
async fn usage_beside_content_may_have_come_unasked_and_is_kept() {
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],\
                 \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}\n\n";
    let sent = send(chat(STREAM), move || {
        answer(&Sample::events([""]), ScriptedBody::of([chunk]))
    })
    .await;
    let call = sent.call.clone();
    assert_eq!(sent.body().await, chunk);
    assert_eq!(meter(&call).counts, TokenCounts::new(3, 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_cut_or_has_no_end_is_passed_on_before_trailers_and_errors() {
    let start = "data: {\"choices\":[],\"usa";
    let sample = Sample::events([""]);
    for end in [End::Complete, End::Trailers, End::Error, End::EndStream] {
        let sample = sample.clone();
        let sent = send(chat(STREAM), move || {
            answer(&sample, end.body(["data: [DONE]\n\n", start]))
        })
        .await;
        let mut body = pin!(sent.response.into_body());
        let mut data = Vec::new();
        let mut last = None;
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            match frame {
                Ok(frame) if frame.is_data() => data.extend(frame.into_data().unwrap()),
                other => last = Some(other.map(|frame| frame.into_trailers().unwrap())),
            }
            if matches!(last, Some(Err(_))) {
                break;
            }
        }
        assert_eq!(data, format!("data: [DONE]\n\n{start}").into_bytes(), "{end:?}");
        match end {
            End::Trailers => assert_eq!(last.unwrap().unwrap()["x-end"], "trailers"),
            End::Error => assert!(last.unwrap().is_err()),
            _ => assert!(last.is_none()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_event_without_its_blank_line_is_an_event() {
    let told = Chat::new(["Hi"]).usage(11, 7).stream_with_usage();
    let kept = Chat::new(["Hi"]).stream();
    let usage_at = told.frames.len() - 2; // before [DONE]
    let cut_end = |frames: &[Bytes]| frames.concat().trim_ascii_end().to_vec();
    let (cut, expected) = (
        cut_end(&told.frames[..=usage_at]),
        kept.frames[..kept.frames.len() - 1].concat(),
    );
    for end in [End::Complete, End::EndStream] {
        let cut = [Bytes::from(cut.clone())];
        let sent = send(chat(STREAM), move || {
            answer(&Sample::events([""]), end.body(cut.clone()))
        })
        .await;
        let call = sent.call.clone();
        assert_eq!(
            Bytes::from(frames(sent.response.into_body()).await.concat()),
            expected
        );
        assert_eq!(meter(&call).counts, TokenCounts::new(11, 7));
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_is_not_announced_before_what_is_held_has_gone() {
    let sent = send(chat(STREAM), || {
        let body = ScriptedBody::of(["data: half an ev"])
            .trailers([("x-sum", "7")])
            .exact_length();
        answer(&Sample::events([""]), body)
    })
    .await;
    let mut body = pin!(sent.response.into_body());
    let data = poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap();
    assert_eq!(data.into_data().unwrap(), "data: half an ev");
    assert!(!body.is_end_stream());
    let trailers = poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap();
    assert!(trailers.is_trailers() && body.is_end_stream());
}

/// Of HTTP/2 the end may arrive on its own, after the last data: then `is_end_stream` turns true between two polls.
#[tokio::test(start_paused = true)]
async fn an_end_that_arrives_alone_is_not_announced_before_what_is_held_has_gone() {
    struct EndsAlone(Option<Bytes>, Arc<AtomicBool>);

    impl Body for EndsAlone {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            match self.0.take() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None if self.is_end_stream() => Poll::Ready(None),
                None => Poll::Pending,
            }
        }

        fn is_end_stream(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }
    }

    let ended = Arc::new(AtomicBool::new(false));
    let body_ended = ended.clone();
    let upstream = tower::service_fn(move |_: Request<_>| {
        let body = EndsAlone(Some("data: half an ev".into()), body_ended.clone());
        let response = Response::builder()
            .header(header::CONTENT_TYPE, "text/event-stream")
            .body(body);
        std::future::ready(Ok::<_, std::convert::Infallible>(response.unwrap()))
    });
    let response = layer().layer(upstream).oneshot(chat(STREAM)).await.unwrap();
    let mut body = pin!(response.into_body());
    assert!(poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx).is_pending())).await);
    ended.store(true, Ordering::Relaxed);
    assert!(!body.is_end_stream());
    assert_eq!(frames(body.as_mut()).await, ["data: half an ev"]);
    assert!(body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn an_event_of_any_length_passes_and_is_not_held_beyond_a_mebibyte() {
    let content = "x".repeat(3 << 20);
    let event =
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{content}\"}}}}],\"usage\":null}}\n\n");
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
    let pieces: Vec<_> = cut(&Bytes::from(event.clone()), &[1 << 19, 1 << 20, 3 << 19, 1 << 21]);
    let sent = send(chat(STREAM), move || {
        let body = ScriptedBody::of(pieces.clone())
            .data(&usage[..20])
            .data(&usage[20..])
            .data("data: [DONE]\n\n");
        answer(&Sample::events([""]), body)
    })
    .await;
    let call = sent.call.clone();
    let frames = frames(sent.response.into_body()).await;
    assert!(
        frames.len() >= 4,
        "it was held until its end: {} frames",
        frames.len()
    );
    assert_eq!(Bytes::from(frames.concat()), format!("{event}data: [DONE]\n\n"));
    assert_eq!(meter(&call).counts, TokenCounts::new(3, 4));
}

#[tokio::test(start_paused = true)]
async fn the_length_of_a_stripped_answer_is_not_announced() {
    let told = Chat::new(["Hi"]);
    let sent = send(chat(STREAM), move || {
        let body = told.stream_with_usage().body().exact_length();
        let length = body.size_hint().exact().unwrap().to_string();
        answer(&told.stream(), body).header("content-length", &length)
    })
    .await;
    assert!(!sent.response.headers().contains_key(header::CONTENT_LENGTH));
    assert_eq!(sent.response.body().size_hint().exact(), None);
}

#[tokio::test(start_paused = true)]
async fn the_length_of_an_answer_that_is_only_read_is_kept() {
    let sample = Chat::new(["Hi"]).completion();
    let length = sample.bytes().len() as u64;
    let sent = send(chat(WHOLE), move || {
        Answer::from(sample.clone()).header("content-length", &length.to_string())
    })
    .await;
    assert_eq!(
        sent.response.headers()[header::CONTENT_LENGTH],
        length.to_string()
    );
    assert_eq!(sent.response.body().size_hint().exact(), Some(length));
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_limit_goes_on_as_it_is_and_so_does_its_answer() {
    let told = Chat::new(["Hi"]);
    let expected = told.stream_with_usage().frames;
    let sent = send_through(layer().body_limit(10), chat(STREAM), move || {
        answer(&told.stream(), told.stream_with_usage().body())
    })
    .await;
    assert_eq!(sent.probe.seen()[0].body, STREAM);
    assert_eq!(frames(sent.response.into_body()).await, expected);
}

// === what was used is known in time ===

#[tokio::test(start_paused = true)]
async fn usage_is_known_before_the_last_frame_is_returned_whatever_the_end() {
    for end in ALL_ENDS {
        for request in [STREAM, STREAM_ASKED] {
            let sample = Chat::new(["Good ", "morning"]).usage(11, 7).stream_with_usage();
            // In two frames, so that the drop after the first one comes with all that matters.
            let halves = [
                Bytes::from(sample.frames[..5].concat()),
                Bytes::from(sample.frames[5..].concat()),
            ];
            let sent = send(chat(request), move || answer(&sample, end.body(halves.clone()))).await;
            let call = sent.call.clone();
            end.meet(sent.response.into_body()).await;
            let used = meter(&call);
            assert_eq!(used.counts, TokenCounts::new(11, 7), "{end:?}");
            assert_eq!(used.state, UsageState::Reported, "{end:?}");
            assert_eq!(
                used.cost,
                Some(NanoUsd::from_nanos(11 * 1_000 + 7 * 2_000)),
                "{end:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_known_when_the_frame_that_tells_it_is_returned() {
    let sample = Chat::new(["Good ", "morning"]).usage(11, 7).stream_with_usage();
    let sent = send(chat(STREAM_ASKED), move || Answer::from(sample.clone())).await;
    let call = sent.call.clone();
    let mut body = pin!(sent.response.into_body());
    assert_eq!(meter(&call).state, UsageState::Answered);
    while let Some(Ok(frame)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let data = frame.into_data().unwrap();
        let tells = data.windows(13).any(|window| window == b"prompt_tokens");
        assert_eq!(
            meter(&call).state == UsageState::Reported,
            tells || data.starts_with(b"data: [DONE]")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_tells_its_usage_with_its_last_frame() {
    for end in [End::Complete, End::Trailers, End::EndStream] {
        let sample = Chat::new(["Good morning"]).usage(11, 7).completion();
        let pieces = cut(&sample.bytes(), &[100]);
        let sent = send(chat(WHOLE), move || answer(&sample, end.body(pieces.clone()))).await;
        let call = sent.call.clone();
        end.meet(sent.response.into_body()).await;
        assert_eq!(meter(&call).counts, TokenCounts::new(11, 7), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hang_up_in_mid_stream_leaves_what_was_passed_on() {
    let sample = Chat::new(["Good morning, ", "dear reader"]).stream_with_usage();
    let mut request = chat(STREAM);
    request
        .extensions_mut()
        .insert(Estimate::given(100, 600).unwrap());
    let sent = send(request, move || Answer::from(sample.clone())).await;
    let call = sent.call.clone();
    let mut body = Box::pin(sent.response.into_body());
    for _ in 0..2 {
        poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap();
    }
    drop(body);
    let used = meter(&call);
    assert_eq!((used.state, used.forwarded), (UsageState::Answered, 4)); // "Good morning, "
    let charge = Settlement::Charge {
        counts: TokenCounts::new(100, 4),
        cost: Some(NanoUsd::from_nanos(100 * 1_000 + 4 * 2_000)),
        basis: Basis::Estimated,
    };
    assert_eq!(settlement(&call, Outcome::Success), charge);
}

#[tokio::test(start_paused = true)]
async fn anthropic_tells_usage_unasked_and_passes_as_it_is() {
    let sample = anthropic::Message::new(["Good ", "morning"])
        .usage(11, 7)
        .stream();
    let expected = sample.frames.clone();
    let sent = send(post("/v1/messages", CLAUDE), move || Answer::from(sample.clone())).await;
    assert_eq!(sent.probe.seen()[0].body, CLAUDE);
    let call = sent.call.clone();
    assert_eq!(frames(sent.response.into_body()).await, expected);
    let used = meter(&call);
    assert_eq!(
        (used.counts.input, used.counts.output, used.state),
        (11, 7, UsageState::Reported)
    );
    assert_eq!(used.cost, Some(NanoUsd::from_nanos(11 * 1_000 + 7 * 2_000)));
}

#[tokio::test(start_paused = true)]
async fn an_encoded_answer_passes_untouched_and_is_counted_by_its_length() {
    let gzip = b"\x1f\x8b\x08\0 not really, but nobody looks inside";
    let sent = send(chat(STREAM), || {
        Answer::ok(ScriptedBody::of([&gzip[..]]).exact_length())
            .header("content-type", "text/event-stream")
            .header("content-encoding", "gzip")
            .header("content-length", "43")
    })
    .await;
    assert_eq!(sent.response.headers()[header::CONTENT_LENGTH], "43");
    let call = sent.call.clone();
    let body = sent.body().await;
    assert_eq!(body, gzip[..]);
    let used = meter(&call);
    assert_eq!(
        (used.state, used.forwarded),
        (UsageState::Answered, (body.len() as u64).div_ceil(4))
    );
    assert!(matches!(
        settlement(&call, Outcome::Success),
        Settlement::Charge {
            basis: Basis::Estimated,
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn an_error_inside_a_200_is_no_usage() {
    let sample = Sample::events([testkit::openai::error_event("server_error", "Something broke.")]);
    let expected = sample.bytes();
    let sent = send(chat(STREAM), move || Answer::from(sample.clone())).await;
    let call = sent.call.clone();
    assert_eq!(sent.body().await, expected);
    let used = meter(&call);
    assert_eq!(
        (used.state, used.counts, used.forwarded),
        (UsageState::Answered, TokenCounts::default(), 0)
    );
}

// === heads ===

#[tokio::test(start_paused = true)]
async fn an_error_status_is_not_billed() {
    const ERROR: &str = r#"{"error":{},"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#;
    for status in [400, 429, 500, 302] {
        let sent = send(chat(STREAM), move || {
            Answer::status(status, ScriptedBody::of([ERROR]).exact_length())
                .header("content-type", "application/json")
        })
        .await;
        assert_eq!(sent.meter().state, UsageState::NotBilled);
        let call = sent.call.clone();
        assert_eq!(sent.body().await, ERROR);
        assert_eq!(settlement(&call, Outcome::Error), Settlement::Release);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_the_watchdog_gave_up_on_may_have_billed() {
    for (layer, state) in [
        (LayerKind::TtfbWatchdog, UsageState::MaybeBilled),
        (LayerKind::RateLimit, UsageState::NotBilled),
    ] {
        let sent = send(chat(WHOLE), move || {
            let refusal = Refusal::new(layer, RefusalKind::Timeout, "upstream_silent", "silent");
            Answer::status(504, ScriptedBody::new()).extension(refusal.refused_by().clone())
        })
        .await;
        assert_eq!(sent.meter().state, state);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_sent_when_the_inner_service_is_called_and_not_before() {
    let mut request = Request::post("/v1/chat/completions")
        .body(ScriptedBody::of(["{"]).after(Duration::from_secs(1)).data("}"))
        .unwrap();
    let call = Call::of(request.extensions_mut());
    let probe = ProbeService::new(|_| Answer::error("refused"));
    let mut answer = pin!(layer().layer(probe).oneshot(request));
    assert!(poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_pending())).await);
    assert!(!call.meter().any_sent());
    assert!(answer.await.is_err());
    assert_eq!(meter(&call).state, UsageState::Sent);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_breaks_off_is_not_sent() {
    let request = Request::post("/v1/chat/completions").body(ScriptedBody::of(["{"]).error("gone"));
    let sent = send(request.unwrap(), || Answer::ok(ScriptedBody::new())).await;
    assert_eq!((sent.response.status().as_u16(), sent.probe.calls()), (400, 0));
    assert!(!sent.call.meter().any_sent());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_an_ai_call_passes_as_if_the_layer_were_not_there() {
    let sent = send(post("/v1/files", "x"), || Answer::ok(ScriptedBody::of(["y"]))).await;
    assert!(!sent.probe.seen()[0].headers.contains_key(header::ACCEPT_ENCODING));
    assert!(!sent.call.has(LayerKind::Usage) && !sent.call.meter().any_sent());
    assert_eq!(settlement(&sent.call, Outcome::Success), Settlement::Estimate);
}

// === attempts and prices ===

fn attempt(n: u32, change: impl FnOnce(&mut Attempt)) -> Attempt {
    let mut attempt = Attempt::new(n, "candidate", Duration::from_secs(1));
    change(&mut attempt);
    attempt
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_encoding_is_asked_for_unless_failover_prepared_the_request() {
    let encoding = async |attempt: Option<Attempt>| {
        let mut request = chat(WHOLE);
        request
            .headers_mut()
            .insert(header::ACCEPT_ENCODING, "gzip".parse().unwrap());
        if let Some(attempt) = attempt {
            request.extensions_mut().insert(attempt);
        }
        let sent = send(request, || Answer::ok(ScriptedBody::new())).await;
        sent.probe.seen()[0].headers[header::ACCEPT_ENCODING].clone()
    };
    assert_eq!(encoding(None).await, "identity");
    assert_eq!(encoding(Some(attempt(1, |_| {}))).await, "gzip");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_recorded_and_priced_at_the_upstream_that_served_it() {
    let prices = prices().with_price("gpt-5-at-azure", Price::per_million(usd!(10), usd!(20)));
    let sample = Chat::new(["Hi"]).usage(11, 7).completion();
    let mut request = chat(WHOLE);
    let azure = attempt(2, |attempt| attempt.priced_as = Some("gpt-5-at-azure".into()));
    request.extensions_mut().insert(azure);
    let sent = send_through(UsageLayer::new(&prices), request, move || {
        Answer::from(sample.clone())
    })
    .await;
    let call = sent.call.clone();
    sent.body().await;
    call.meter().served(2);
    assert_eq!(
        meter(&call).cost,
        Some(NanoUsd::from_nanos(11 * 10_000 + 7 * 20_000))
    );
}

#[tokio::test(start_paused = true)]
async fn the_model_and_tier_that_the_answer_names_are_what_is_billed() {
    let cost = async |model: &'static str, tier: &'static str| {
        let body = format!(
            r#"{{"model":"{model}","service_tier":"{tier}","choices":[{{"index":0,"finish_reason":"stop","message":{{"content":"x"}}}}],"usage":{{"prompt_tokens":1000,"completion_tokens":100}}}}"#
        );
        let sample = Sample::json(200, body);
        let sent = send_through(UsageLayer::new(&Prices::bundled()), chat(WHOLE), move || {
            Answer::from(sample.clone())
        })
        .await;
        let call = sent.call.clone();
        sent.body().await;
        meter(&call).cost.unwrap().nanos()
    };
    let asked = 1_000 * 1_250 + 100 * 10_000; // gpt-5
    assert_eq!(cost("gpt-5-2025-08-07", "default").await, asked);
    assert_eq!(cost("gpt-5-2025-08-07", "flex").await, asked / 2);
    assert_eq!(cost("gpt-5-mini", "default").await, 1_000 * 250 + 100 * 2_000);
    assert_eq!(cost("a name that no table has", "default").await, asked);
}

#[tokio::test(start_paused = true)]
async fn a_tariff_is_there_before_any_answer() {
    let mut request = chat(WHOLE);
    let call = Call::of(request.extensions_mut());
    let probe = ProbeService::new(|_| Answer::never());
    let mut never = pin!(layer().layer(probe).oneshot(request));
    for _ in 0..3 {
        assert!(poll_fn(|cx| Poll::Ready(never.as_mut().poll(cx).is_pending())).await);
    }
    let tariff = meter(&call).tariff.expect("a tariff");
    assert_eq!(tariff(&TokenCounts::new(1, 1)), Some(NanoUsd::from_nanos(3_000)));
}

#[tokio::test(start_paused = true)]
async fn without_estimate_the_request_is_read_here() {
    let sent = send(chat(STREAM), || Answer::ok(ScriptedBody::new())).await;
    let ai = sent.call.ai().expect("an AI call").clone();
    assert_eq!((&*ai.model, ai.stream, ai.usage_asked), ("gpt-5", true, false));

    let sent = send(chat("not JSON"), || Answer::ok(ScriptedBody::new())).await;
    assert!(sent.call.ai().is_none());
    assert_eq!(sent.probe.seen()[0].body, "not JSON");
}
