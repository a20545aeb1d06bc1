//! The bodies of the client: a request's, fed in small frames, and a response's.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_ai_core::{BoxError, Phases};

/// hyper takes a body as fast as it comes, whatever the socket does: a frame of 16 MiB counts as written after 0 ms and is
/// on the wire a second later. In frames of this size, "the last frame was taken" is exact on HTTP/2, and exact to the
/// kernel's buffer on HTTP/1.1.
const FRAME_BYTES: usize = 16 * 1024;

/// The one request body type of the pool.
pub(super) type RequestBody = Feed;

/// Hands a body on in frames of at most 16 KiB, and tells [`Phases`] how far it came. Frames are slices: nothing is
/// copied.
pub(super) struct Feed {
    inner: UnsyncBoxBody<Bytes, BoxError>,
    frame: Bytes,
    phases: Option<Phases>,
}

impl Feed {
    pub(super) fn erased<B>(body: B, phases: Option<Phases>) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            inner: body.map_err(Into::into).boxed_unsync(),
            frame: Bytes::new(),
            phases,
        }
    }

    fn next_slice(&mut self) -> Bytes {
        let slice = self.frame.split_to(self.frame.len().min(FRAME_BYTES));
        if let Some(phases) = &self.phases {
            phases.progress(slice.len());
        }
        self.tell_if_written();
        slice
    }

    fn tell_if_written(&mut self) {
        if self.is_end_stream()
            && let Some(phases) = self.phases.take()
        {
            phases.written();
        }
    }
}

impl Body for Feed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(phases) = &self.phases {
            phases.connected(); // only a connection polls its request's body
        }
        loop {
            if !self.frame.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(self.next_slice()))));
            }
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)).transpose()? {
                None => {
                    if let Some(phases) = self.phases.take() {
                        phases.written();
                    }
                    return Poll::Ready(None);
                }
                Some(frame) => frame,
            };
            match frame.into_data() {
                Ok(data) => self.frame = data, // an empty one is left out
                Err(other) => {
                    self.tell_if_written();
                    return Poll::Ready(Some(Ok(other)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frame.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.frame.len() as u64;
        let rest = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + held);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

impl Drop for Feed {
    /// A request without a body is never polled: hyper drops its body once the head is written.
    fn drop(&mut self) {
        self.tell_if_written();
    }
}

/// The body of an upstream's answer.
#[derive(Debug)]
pub struct ClientBody(Incoming);

impl ClientBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self(body)
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Empty, Full};
    use std::{future::poll_fn, iter};
    use testkit::ScriptedBody;

    fn fed<B>(body: B) -> (Feed, Phases)
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let phases = Phases::default();
        (Feed::erased(body, Some(phases.clone())), phases)
    }

    async fn next(feed: &mut Feed) -> Option<Bytes> {
        let frame = poll_fn(|cx| Pin::new(&mut *feed).poll_frame(cx)).await?;
        frame.unwrap().into_data().ok()
    }

    #[tokio::test]
    async fn a_large_frame_is_fed_in_slices_of_16_kib_and_not_copied() {
        let large = Bytes::from(vec![b'x'; 40_000]);
        let (mut feed, phases) = fed(Full::new(large.clone()));
        assert_eq!(feed.size_hint().exact(), Some(40_000));
        let mut at = 0;
        for (len, is_written) in [(16_384, false), (16_384, false), (7_232, true)] {
            let slice = next(&mut feed).await.unwrap();
            assert_eq!(slice.as_ptr(), large[at..].as_ptr());
            at += slice.len();
            assert_eq!((slice.len(), phases.is_written()), (len, is_written));
            assert_eq!(feed.size_hint().exact(), Some(40_000 - at as u64));
        }
        assert!(feed.is_end_stream());
        assert_eq!(phases.bytes_written(), 40_000);
    }

    #[tokio::test]
    async fn a_small_whole_body_is_one_frame() {
        let (mut feed, phases) = fed(Full::new(Bytes::from_static(b"hello")));
        assert_eq!(next(&mut feed).await.unwrap(), "hello");
        assert!(phases.is_written() && phases.is_connected());
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_is_written_when_it_ends() {
        let (mut feed, phases) = fed(ScriptedBody::of(["a", "b"]));
        while next(&mut feed).await.is_some() {
            assert!(!phases.is_written());
        }
        assert!(phases.is_written());
    }

    #[tokio::test]
    async fn trailers_are_passed_on() {
        let (mut feed, _) = fed(ScriptedBody::of(["a"]).trailers([("x-sum", "1")]));
        assert_eq!(next(&mut feed).await.unwrap(), "a");
        let frame = poll_fn(|cx| Pin::new(&mut feed).poll_frame(cx))
            .await
            .unwrap()
            .unwrap();
        assert!(frame.is_trailers());
    }

    #[test]
    fn a_body_with_nothing_in_it_is_written_when_it_is_dropped() {
        let (feed, phases) = fed(Empty::<Bytes>::new());
        assert!(!phases.is_written());
        drop(feed);
        assert!(phases.is_written());
    }

    #[tokio::test]
    async fn a_body_that_is_given_up_is_not_written() {
        let (mut feed, phases) = fed(ScriptedBody::of(iter::repeat_n("x", 3)));
        let _ = next(&mut feed).await;
        drop(feed);
        assert!(phases.is_connected() && !phases.is_written());
    }
}
