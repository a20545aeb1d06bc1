//! Streams after their start: passed on as they come, and never cut without saying so.

use crate::support::*;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use testkit::{Answer, ScriptedBody, anthropic, anthropic::Message, openai, openai::Chat};
use tokio::time::Instant;
use tower_ai_core::{Silence, SilentPhase};
use tower_ai_failover::{DeadlineExceeded, FailoverLayer, Routes, Upstream};

fn sse(body: ScriptedBody) -> Answer {
    Answer::ok(body)
        .header("content-type", "text/event-stream")
        .header("content-length", "9999")
}

/// The events of a chat up to the first content, and as much of it.
fn begun() -> [Bytes; 2] {
    let frames = Chat::new(["hello"]).stream().frames;
    [frames[0].clone(), frames[1].clone()]
}

async fn read(body: ScriptedBody) -> String {
    let response = send(&layer(2), &scripted([sse(body)]), chat(CHAT_STREAM)).await;
    assert_eq!(served_by(&response), "a");
    text(response).await
}

fn interrupted(reason: &str) -> String {
    format!(
        "data: {{\"error\":{{\"message\":\"the stream was interrupted: {reason}\",\"type\":\"upstream_error\",\
         \"param\":null,\"code\":\"stream_interrupted\"}}}}\n\n"
    )
}

#[tokio::test(start_paused = true)]
async fn a_stream_passes_byte_for_byte_and_frame_by_frame() {
    for sample in [
        Chat::new(["Hel", "lo"]).stream(),
        Chat::new(["Hel", "lo"]).stream_with_usage(),
    ] {
        assert_eq!(read(sample.body()).await, sample_text(&sample));
    }
}

#[tokio::test(start_paused = true)]
async fn each_chunk_is_passed_on_when_it_comes() {
    let sample = Chat::new(["a", "b"]).stream();
    let body = sample.frames.iter().fold(ScriptedBody::new(), |body, frame| {
        body.after(SECOND).data(frame.clone())
    });
    let response = send(&layer(1), &scripted([sse(body)]), chat(CHAT_STREAM)).await;
    let (start, mut body) = (Instant::now(), response.into_body());
    let mut frames = Vec::new();
    let mut times = Vec::new();
    let mut body = std::pin::pin!(&mut body);
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
        times.push(start.elapsed().as_secs());
    }
    assert_eq!(frames, sample.frames);
    assert!(
        frames
            .iter()
            .zip(&sample.frames)
            .all(|(one, other)| one.as_ptr() == other.as_ptr()),
        "copied"
    );
    // The role chunk is held until the first content, one second later; that is where the clock starts.
    assert_eq!(times, [0, 0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_split_anywhere_gives_the_same_bytes() {
    let bytes = Chat::new(["Hel", "lo"]).stream().bytes();
    for split in 1..bytes.len() {
        let body = ScriptedBody::of([bytes.slice(..split)])
            .pending()
            .data(bytes.slice(split..));
        assert_eq!(read(body).await.as_bytes(), bytes, "split at {split}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_anywhere_after_content_leaves_no_half_event_and_ends_with_an_error_event() {
    let [role, hello] = begun();
    let rest = Chat::new(["hello", "world"]).stream().frames[2].clone();
    for cut in 0..rest.len() {
        let body = ScriptedBody::of([role.clone(), hello.clone(), rest.slice(..cut)]).error("reset");
        let expected = [&role[..], &hello[..], interrupted("reset").as_bytes()].concat();
        assert_eq!(read(body).await.as_bytes(), expected, "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_without_a_terminal_marker_is_no_clean_end() {
    let text = read(ScriptedBody::of(begun())).await;
    assert!(text.ends_with(&interrupted("truncated")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stalls_ends_with_the_limit_that_fired() {
    let silence = Silence {
        phase: SilentPhase::Gap,
        limit: SECOND * 60,
    };
    let inner = tower::service_fn(
        move |_: Request<tower_ai_core::Buffered<Full<Bytes>>>| async move {
            let frames = begun().map(|frame| Ok(http_body::Frame::data(frame)));
            let body = Frames(frames.into_iter().chain([Err(silence)]).collect());
            let response = http::Response::builder()
                .header("content-type", "text/event-stream")
                .body(body)
                .unwrap();
            Ok::<_, std::convert::Infallible>(response)
        },
    );
    let service = tower_layer::Layer::layer(&layer(1), inner);
    let response = tower::ServiceExt::oneshot(service, chat(CHAT_STREAM))
        .await
        .unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(bytes.ends_with(interrupted("gap-60s").as_bytes()), "{bytes:?}");
}

/// A body of these frames.
struct Frames(std::collections::VecDeque<Result<http_body::Frame<Bytes>, Silence>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Silence;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Silence>>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_event_of_the_upstream_is_passed_on_once_and_is_the_end() {
    let error = openai::error_event("server_error", "broke");
    let body = ScriptedBody::of(begun())
        .data(format!("{error}data: [DONE]\n\n"))
        .forever();
    let watch = body.watch();
    let text = read(body).await;
    assert!(text.ends_with(&error), "{text}");
    assert_eq!(text.matches("\"error\"").count(), 1);
    assert!(watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn an_error_after_the_error_event_is_not_told() {
    let error = openai::error_event("server_error", "broke");
    let text = read(ScriptedBody::of(begun()).data(error.clone()).error("reset")).await;
    assert!(text.ends_with(&error), "{text}");
}

#[tokio::test(start_paused = true)]
async fn after_the_terminal_marker_a_reset_is_a_clean_end() {
    let sample = Chat::new(["hello"]).stream();
    assert_eq!(read(sample.body().error("reset")).await, sample_text(&sample));
}

#[tokio::test(start_paused = true)]
async fn an_anthropic_stream_breaks_off_in_its_dialect() {
    let frames = Message::new(["hello"]).stream().frames;
    let body = ScriptedBody::of(frames[..5].to_vec()).error("reset");
    let response = send(&layer(2), &scripted([sse(body)]), messages(MESSAGES_STREAM)).await;
    let text = text(response).await;
    let event = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\
                 \"message\":\"the stream was interrupted: reset\"}}\n\n";
    assert!(text.ends_with(event), "{text}");
    assert!(!text.contains("message_stop"));
}

#[tokio::test(start_paused = true)]
async fn an_anthropic_error_event_after_content_is_passed_on_once() {
    let frames = Message::new(["hello"]).stream().frames;
    let error = anthropic::error_event("overloaded_error", "busy");
    let body = ScriptedBody::of(frames[..5].to_vec()).data(error.clone());
    let response = send(&layer(2), &scripted([sse(body)]), messages(MESSAGES_STREAM)).await;
    let text = text(response).await;
    assert!(text.ends_with(&error));
    assert_eq!(text.matches("event: error").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_a_flowing_stream_with_an_error_event() {
    let piece = begun()[1].clone();
    let flowing = |seconds: u32| {
        let pieces = (0..seconds).fold(ScriptedBody::of(begun()), |body, _| {
            body.after(SECOND).data(piece.clone())
        });
        let end = Chat::new([""]).stream().frames;
        pieces.data(end[2].clone()).data(end[3].clone())
    };
    let start = Instant::now();
    let text = read(flowing(600)).await;
    assert!(
        text.ends_with(&interrupted("deadline")),
        "{}",
        &text[text.len() - 200..]
    );
    assert_eq!(start.elapsed(), SECOND * 540);

    let layer = layer(1).deadline_ends_streams(false);
    let response = send(&layer, &scripted([sse(flowing(600))]), chat(CHAT_STREAM)).await;
    assert!(crate::support::text(response).await.ends_with("data: [DONE]\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_reads_slowly_does_not_outlive_the_deadline() {
    let piece = begun()[1].clone();
    let body = (0..100).fold(ScriptedBody::of(begun()), |body, _| body.data(piece.clone()));
    let mut body = send(&layer(1), &scripted([sse(body)]), chat(CHAT_STREAM))
        .await
        .into_body();
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    tokio::time::sleep(SECOND * 541).await;
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(
        rest.len() < 3 * piece.len() && rest.ends_with(interrupted("deadline").as_bytes()),
        "{rest:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_stream_breaks_off_as_the_upstream_does() {
    let routes = Routes::new().any([Upstream::plain("a", "http://a")]);
    let layer = FailoverLayer::new(routes).unwrap();
    let request = || Request::get("/files/1").body(Full::default()).unwrap();
    let body = ScriptedBody::of(["one", "two"]).error("reset");
    let response = send(&layer, &scripted([Answer::ok(body)]), request()).await;
    let error = response.into_body().collect().await.unwrap_err();
    assert_eq!(error.to_string(), "reset");

    let body = ScriptedBody::of(["one"]).forever();
    let response = send(&layer, &scripted([Answer::ok(body)]), request()).await;
    let error = response.into_body().collect().await.unwrap_err();
    assert!(error.is::<DeadlineExceeded>());
}

#[tokio::test(start_paused = true)]
async fn at_most_64_kib_or_256_events_are_held_before_content() {
    let comment = format!(": {}\n\n", "x".repeat(1000));
    let body = (0..70)
        .fold(ScriptedBody::new(), |body, _| body.data(comment.clone()))
        .forever();
    let watch = body.watch();
    let _held = send(&layer(1), &scripted([sse(body)]), chat(CHAT_STREAM)).await;
    assert_eq!(watch.frames(), 64 * 1024 / comment.len() + 1);

    let body = (0..300)
        .fold(ScriptedBody::new(), |body, _| body.data(": x\n\n"))
        .forever();
    let watch = body.watch();
    let _held = send(&layer(1), &scripted([sse(body)]), chat(CHAT_STREAM)).await;
    assert_eq!(watch.frames(), 257);
}

#[tokio::test(start_paused = true)]
async fn at_most_256_kib_of_a_document_are_held() {
    let chunk = "x".repeat(1024);
    let body = (0..400)
        .fold(ScriptedBody::of(["{\"a\":\""]), |body, _| {
            body.data(chunk.clone())
        })
        .error("reset");
    let watch = body.watch();
    let answer = Answer::ok(body).header("content-type", "application/json");
    let response = send(&layer(1), &scripted([answer]), chat(CHAT)).await;
    assert_eq!(watch.frames(), 257);
    assert_eq!(
        response.into_body().collect().await.unwrap_err().to_string(),
        "reset"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_announces_no_length_since_an_error_event_may_follow() {
    let response = send(
        &layer(1),
        &scripted([sse(Chat::new(["x"]).stream().body())]),
        chat(CHAT_STREAM),
    )
    .await;
    assert!(!response.headers().contains_key("content-length"));
}

#[tokio::test(start_paused = true)]
async fn an_encoded_answer_passes_from_its_first_byte_on_untouched() {
    let body = ScriptedBody::of([&b"\x1f\x8b\x08 no events"[..], b" here"]);
    let answer = sse(body).header("content-encoding", "gzip");
    let response = send(&layer(2), &scripted([answer]), chat(CHAT_STREAM)).await;
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        &b"\x1f\x8b\x08 no events here"[..]
    );
}

#[tokio::test(start_paused = true)]
async fn trailers_of_a_complete_stream_are_passed_on_and_of_a_cut_one_not() {
    let sample = Chat::new(["x"]).stream();
    let response = send(
        &layer(1),
        &scripted([sse(sample.body().trailers([("x-sum", "7")]))]),
        chat(CHAT_STREAM),
    )
    .await;
    assert_eq!(
        response.into_body().collect().await.unwrap().trailers().unwrap()["x-sum"],
        "7"
    );

    let cut = ScriptedBody::of(begun()).trailers([("x-sum", "7")]);
    let response = send(&layer(1), &scripted([sse(cut)]), chat(CHAT_STREAM)).await;
    let collected = response.into_body().collect().await.unwrap();
    assert!(collected.trailers().is_none());
    assert!(
        collected
            .to_bytes()
            .ends_with(interrupted("truncated").as_bytes())
    );
}

#[tokio::test(start_paused = true)]
async fn trailers_are_the_end_whatever_the_upstream_does_then() {
    let body = ScriptedBody::of(begun()).trailers([("x-sum", "7")]).forever();
    let watch = body.watch();
    assert!(read(body).await.ends_with(&interrupted("truncated")));
    assert!(watch.is_dropped());

    let document = Chat::new(["x"]).completion();
    let layer = FailoverLayer::new(Routes::new().any([Upstream::plain("a", "http://a")])).unwrap();
    let body = ScriptedBody::of(document.frames.clone())
        .trailers([("x-sum", "7")])
        .forever();
    let answer = Answer::ok(body).header("content-type", "application/json");
    let request = Request::get("/files/1").body(Full::default()).unwrap();
    let collected = send(&layer, &scripted([answer]), request)
        .await
        .into_body()
        .collect()
        .await
        .unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "7");
    assert_eq!(collected.to_bytes(), document.bytes());
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_mid_stream_drops_the_upstreams_body() {
    let body = ScriptedBody::of(begun()).forever();
    let watch = body.watch();
    let response = send(&layer(1), &scripted([sse(body)]), chat(CHAT_STREAM)).await;
    assert!(!watch.is_dropped());
    drop(response);
    assert!(watch.is_dropped());
}
