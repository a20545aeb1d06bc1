//! The body of a response.

use crate::{Store, reservation::Reservation};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use tower_ai_core::{Refusable, TapBody};

pin_project! {
    /// The inner service's body, unchanged, or that of a refusal. Tokens are settled when it ends, whichever way.
    pub struct ResponseBody<B, St: Store> {
        #[pin]
        inner: Refusable<TapBody<B, Option<Reservation<St>>>>,
    }
}

impl<B: Body<Data = Bytes>, St: Store> ResponseBody<B, St> {
    pub(crate) fn tapped(body: B, reservation: Option<Reservation<St>>) -> Self {
        Self::new(Refusable::inner(TapBody::new(body, reservation)))
    }

    pub(crate) fn new(inner: Refusable<TapBody<B, Option<Reservation<St>>>>) -> Self {
        Self { inner }
    }
}

impl<B: Body<Data = Bytes>, St: Store> Body for ResponseBody<B, St> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: fmt::Debug, St: Store> fmt::Debug for ResponseBody<B, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResponseBody").field(&self.inner).finish()
    }
}
