//! The end of a body, whichever of the five it is, told exactly once.

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyEnd {
    /// It was polled to `None`.
    Complete,
    /// A trailers frame came.
    Trailers,
    /// It failed.
    Error,
    /// `is_end_stream` turned true after a frame, or was true from the start. hyper stops polling here for a
    /// body with a content-length, so `None` is never seen.
    EndStream,
    /// It was dropped before any of these.
    Dropped,
}

/// Told the end of a body, once.
///
/// Implement it on a guard. It lives in the body, as an obligation must: a guard in extensions is dropped too
/// early, and code after an `await` is skipped by a drop.
pub trait OnEnd {
    /// The body ended so. Must not block; it may run in a `Drop`.
    fn on_end(self, end: BodyEnd);
}

impl<F: FnOnce(BodyEnd)> OnEnd for F {
    fn on_end(self, end: BodyEnd) {
        self(end);
    }
}

impl<T: OnEnd> OnEnd for Option<T> {
    fn on_end(self, end: BodyEnd) {
        if let Some(guard) = self {
            guard.on_end(end);
        }
    }
}

/// Fires its guard once, at the latest when dropped. A field of its own rather than a `PinnedDrop` of the body:
/// that would run *before* the inner body is dropped, and an outer guard would settle before the inner ones.
struct Once<O: OnEnd>(Option<O>);

impl<O: OnEnd> Once<O> {
    fn fire(&mut self, end: BodyEnd) {
        if let Some(guard) = self.0.take() {
            guard.on_end(end);
        }
    }
}

impl<O: OnEnd> Drop for Once<O> {
    fn drop(&mut self) {
        self.fire(BodyEnd::Dropped);
    }
}

pin_project! {
    /// A body that tells its end to a guard and is otherwise the inner body: frames, trailers, `size_hint` and
    /// `is_end_stream` pass untouched.
    ///
    /// Nested taps end inside out, also when dropped.
    ///
    /// ```
    /// use http_body_util::{BodyExt, Full};
    /// use tower_ai_core::{BodyEnd, TapBody};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// let mut ends = Vec::new();
    /// let body = TapBody::new(Full::<bytes::Bytes>::from("hello"), |end: BodyEnd| ends.push(end));
    /// assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
    /// assert_eq!(ends, [BodyEnd::EndStream]);
    /// # });
    /// ```
    pub struct TapBody<B, O: OnEnd> {
        // Dropped in this order: what the inner body settles comes before the guard.
        #[pin]
        inner: B,
        guard: Once<O>,
    }
}

impl<B: Body, O: OnEnd> TapBody<B, O> {
    /// Taps `inner`. The guard is told at once if the body has already ended.
    pub fn new(inner: B, guard: O) -> Self {
        let mut guard = Once(Some(guard));
        if inner.is_end_stream() {
            guard.fire(BodyEnd::EndStream);
        }
        Self { inner, guard }
    }

    /// The guard, until it was told.
    pub fn guard_mut(self: Pin<&mut Self>) -> Option<&mut O> {
        self.project().guard.0.as_mut()
    }
}

impl<B: Body, O: OnEnd> Body for TapBody<B, O> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        let end = match &frame {
            None => Some(BodyEnd::Complete),
            Some(Err(_)) => Some(BodyEnd::Error),
            Some(Ok(frame)) if frame.is_trailers() => Some(BodyEnd::Trailers),
            Some(Ok(_)) => this.inner.is_end_stream().then_some(BodyEnd::EndStream),
        };
        if let Some(end) = end {
            this.guard.fire(end);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: fmt::Debug, O: OnEnd> fmt::Debug for TapBody<B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapBody")
            .field("inner", &self.inner)
            .field("told", &self.guard.0.is_none())
            .finish()
    }
}
