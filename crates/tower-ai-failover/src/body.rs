//! The body of an answer.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tower_ai_core::BoxError;

/// The body of the attempt that serves the call.
#[derive(Debug)]
pub struct FailoverBody<B> {
    inner: Pin<Box<B>>,
}

impl<B> FailoverBody<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self {
            inner: Box::pin(inner),
        }
    }
}

impl<B> Body for FailoverBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.inner.as_mut().poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
