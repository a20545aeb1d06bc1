//! The five ends of a body, and bodies that are read first.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use std::{
    cell::RefCell,
    collections::VecDeque,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
};
use tower_ai_core::{BodyEnd, Buffered, Buffering, OnEnd, TapBody};

/// Yields its frames, then `None`; ends early by `is_end_stream` when `exact`.
#[derive(Default)]
struct Script {
    frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
    exact: bool,
}

impl Script {
    fn new(frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>) -> Self {
        Self {
            frames: frames.into_iter().collect(),
            exact: false,
        }
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.frames.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.exact && self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let data = self
            .frames
            .iter()
            .flatten()
            .filter_map(Frame::data_ref)
            .map(|data| data.len() as u64)
            .sum();
        if self.exact {
            SizeHint::with_exact(data)
        } else {
            SizeHint::default()
        }
    }
}

fn data(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

fn next<B: Body>(body: Pin<&mut B>) -> Option<Result<Frame<B::Data>, B::Error>> {
    match body.poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frame) => frame,
        Poll::Pending => panic!("scripted bodies are always ready"),
    }
}

type Log = Rc<RefCell<Vec<(&'static str, BodyEnd)>>>;

struct Guard(&'static str, Log);

impl OnEnd for Guard {
    fn on_end(self, end: BodyEnd) {
        self.1.borrow_mut().push((self.0, end));
    }
}

fn ends_of(script: Script, polls: usize) -> Vec<BodyEnd> {
    let log = Log::default();
    let mut body = Box::pin(TapBody::new(script, Guard("tap", log.clone())));
    for _ in 0..polls {
        let _ = next(body.as_mut());
    }
    drop(body);
    log.take().into_iter().map(|(_, end)| end).collect()
}

#[test]
fn each_of_the_five_ends_is_told_once() {
    let exact = |frames| Script {
        exact: true,
        ..Script::new(frames)
    };
    assert_eq!(ends_of(Script::new([data("a")]), 3), [BodyEnd::Complete]);
    assert_eq!(
        ends_of(Script::new([data("a"), Ok(Frame::trailers(HeaderMap::new()))]), 3),
        [BodyEnd::Trailers]
    );
    assert_eq!(ends_of(Script::new([data("a"), Err("cut")]), 3), [BodyEnd::Error]);
    assert_eq!(ends_of(exact(vec![data("a")]), 1), [BodyEnd::EndStream]);
    assert_eq!(
        ends_of(Script::new([data("a"), data("b")]), 1),
        [BodyEnd::Dropped]
    );
}

#[test]
fn a_body_that_is_empty_from_the_start_has_ended() {
    let log = Log::default();
    let body = TapBody::new(Full::new(Bytes::new()), Guard("tap", log.clone()));
    assert_eq!(log.borrow()[..], [("tap", BodyEnd::EndStream)]);
    drop(body);
    assert_eq!(log.borrow().len(), 1);
}

#[test]
fn three_nested_taps_end_inside_out_when_dropped() {
    let log = Log::default();
    let tap = |name| Guard(name, log.clone());
    let inner = TapBody::new(Script::new([data("a"), data("b")]), tap("inner"));
    let mut body = Box::pin(TapBody::new(TapBody::new(inner, tap("middle")), tap("outer")));
    let _ = next(body.as_mut());
    drop(body);
    let order: Vec<_> = log.borrow().iter().map(|(name, _)| *name).collect();
    assert_eq!(order, ["inner", "middle", "outer"]);
}

#[test]
fn a_tap_changes_nothing_that_can_be_seen() {
    let mut body = pin!(TapBody::new(
        Script {
            exact: true,
            ..Script::new([data("abc")])
        },
        |_: BodyEnd| {}
    ));
    assert_eq!(body.size_hint().exact(), Some(3));
    assert!(!body.is_end_stream());
    assert_eq!(next(body.as_mut()).unwrap().unwrap().into_data().unwrap(), "abc");
    assert!(body.is_end_stream());
}

async fn buffered<B: Body<Data = Bytes> + Unpin>(body: B, cap: usize) -> Result<Buffered<B>, B::Error> {
    let mut buffering = Buffering::new(body, cap);
    std::future::poll_fn(|cx| buffering.poll(cx)).await
}

#[tokio::test]
async fn reading_a_whole_body_again_copies_nothing() {
    let prompt = Bytes::from("a prompt".to_owned());
    let once = buffered(Full::new(prompt.clone()), 100).await.unwrap();
    let twice = buffered(once, 100).await.unwrap();
    assert_eq!(twice.bytes().unwrap().as_ptr(), prompt.as_ptr());
}

#[tokio::test]
async fn frames_are_joined_and_trailers_kept() {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "7".parse().unwrap());
    let script = Script::new([data("ab"), data("cd"), data("ef"), Ok(Frame::trailers(trailers))]);
    let whole = buffered(script, 6).await.unwrap();
    assert_eq!(whole.bytes().unwrap(), "abcdef");
    let collected = whole.collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["checksum"], "7");
    assert_eq!(collected.to_bytes(), "abcdef");
}

#[tokio::test]
async fn a_body_read_whole_is_there_again_with_its_trailers() {
    let trailers = HeaderMap::from_iter([(http::header::ETAG, "1".parse().unwrap())]);
    let script = Script::new([data("ab"), Ok(Frame::trailers(trailers.clone()))]);
    let first = buffered(script, 10).await.unwrap();
    let second = first.again().unwrap();
    assert_eq!(second.bytes().unwrap().as_ptr(), first.bytes().unwrap().as_ptr());
    assert_eq!(first.collect().await.unwrap().trailers(), Some(&trailers));
    assert_eq!(second.collect().await.unwrap().trailers(), Some(&trailers));
    assert!(Buffered::unread(Script::default()).again().is_none());
}

#[tokio::test]
async fn over_the_cap_the_body_passes_as_prefix_and_rest() {
    let over = buffered(Script::new([data("abc"), data("def"), data("ghi")]), 5)
        .await
        .unwrap();
    assert!(over.bytes().is_none());
    assert_eq!(over.collect().await.unwrap().to_bytes(), "abcdefghi");
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_not_read() {
    let big = Full::new(Bytes::from_static(b"0123456789"));
    let mut buffering = Buffering::new(big, 9);
    let over = std::future::poll_fn(|cx| buffering.poll(cx)).await.unwrap();
    assert!(over.bytes().is_none());
    assert_eq!(over.size_hint().exact(), Some(10));
}

#[tokio::test]
async fn a_body_that_fails_while_it_is_read_fails() {
    assert_eq!(
        buffered(Script::new([data("a"), Err("cut")]), 9)
            .await
            .unwrap_err(),
        "cut"
    );
}
