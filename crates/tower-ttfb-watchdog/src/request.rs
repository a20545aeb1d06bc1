//! The request's body, which tells how much of it was taken.

use crate::upload::Upload;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_ai_core::{BodyEnd, OnEnd, TapBody};

pin_project! {
    /// The request's body as the inner service gets it: the caller's, in frames of at most 16 KiB.
    ///
    /// A frame is cut without being copied. It has to be small because a client takes a frame long before its bytes
    /// are sent: of a body in one frame of 16 MiB, "the last frame was taken" is true a second too early.
    pub struct RequestBody<B> {
        #[pin]
        inner: TapBody<Sliced<B>, Option<Told>>,
        upload: Upload,
        // Dropped after the body.
        told_by_drop: Option<Told>,
    }
}

impl<B: Body<Data = Bytes>> RequestBody<B> {
    pub(crate) fn new(body: B, upload: Upload) -> Self {
        let told = Told(upload.clone());
        // A client drops an empty body when it writes the head; at the call, there may be no connection yet.
        let (told_at_end, told_by_drop) = match body.is_end_stream() {
            true => (None, Some(told)),
            false => (Some(told), None),
        };
        Self {
            inner: TapBody::new(Sliced::new(body), told_at_end),
            upload,
            told_by_drop,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = this.inner.poll_frame(cx);
        match &frame {
            Poll::Pending => this.upload.starves(),
            Poll::Ready(Some(Ok(frame))) => this.upload.taken(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(_) => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for RequestBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody")
            .field("upload", &self.upload)
            .finish_non_exhaustive()
    }
}

/// Tells that the body is over, whichever way it goes.
struct Told(Upload);

impl OnEnd for Told {
    fn on_end(self, _: BodyEnd) {}
}

impl Drop for Told {
    fn drop(&mut self) {
        self.0.ends();
    }
}

const LARGEST_FRAME_BYTES: usize = 16 * 1024;

pin_project! {
    /// A body in frames of at most [`LARGEST_FRAME_BYTES`].
    struct Sliced<B> {
        #[pin]
        inner: B,
        rest: Bytes,
    }
}

impl<B> Sliced<B> {
    fn new(inner: B) -> Self {
        Self {
            inner,
            rest: Bytes::new(),
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Sliced<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if this.rest.is_empty() {
            match ready!(this.inner.poll_frame(cx)?).map(Frame::into_data) {
                Some(Ok(data)) if data.len() > LARGEST_FRAME_BYTES => *this.rest = data,
                Some(Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                None => return Poll::Ready(None),
            }
        }
        let len = this.rest.len().min(LARGEST_FRAME_BYTES);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint.set_lower(inner.lower().saturating_add(rest));
        hint
    }
}
