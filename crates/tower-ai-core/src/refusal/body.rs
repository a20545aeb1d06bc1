//! The inner body, or a refusal's: the inner body needs no `Default` or `From`.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

pin_project! {
    /// The body of a layer that may answer by itself.
    #[derive(Debug)]
    pub struct Refusable<B> {
        #[pin]
        body: Either<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = EitherProj]
    enum Either<B> {
        Inner { #[pin] body: B },
        Refusal { bytes: Bytes },
    }
}

impl<B> Refusable<B> {
    /// The inner service's body.
    pub fn inner(body: B) -> Self {
        Self {
            body: Either::Inner { body },
        }
    }

    /// A refusal's whole body.
    pub fn refusal(bytes: Bytes) -> Self {
        Self {
            body: Either::Refusal { bytes },
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Refusable<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().body.project() {
            EitherProj::Inner { body } => body.poll_frame(cx),
            EitherProj::Refusal { bytes } if bytes.is_empty() => Poll::Ready(None),
            EitherProj::Refusal { bytes } => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Either::Inner { body } => body.is_end_stream(),
            Either::Refusal { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Either::Inner { body } => body.size_hint(),
            Either::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
