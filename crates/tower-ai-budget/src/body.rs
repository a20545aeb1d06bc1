//! The answer's body, in which the reservation lives.

use crate::{Ledger, reservation::Reservation};
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
    /// The inner service's body, or that of a refusal. The reservation is settled when it ends, or is dropped.
    pub struct ResponseBody<B, L: Ledger> {
        #[pin]
        inner: Refusable<TapBody<B, Option<Reservation<L>>>>,
    }
}

impl<B: Body, L: Ledger> ResponseBody<B, L> {
    pub(crate) fn new(body: B, reservation: Option<Reservation<L>>) -> Self {
        Self {
            inner: Refusable::inner(TapBody::new(body, reservation)),
        }
    }

    pub(crate) fn refusal(inner: Refusable<TapBody<B, Option<Reservation<L>>>>) -> Self {
        Self { inner }
    }
}

impl<B: Body<Data = Bytes>, L: Ledger> Body for ResponseBody<B, L> {
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

impl<B, L: Ledger> fmt::Debug for ResponseBody<B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
