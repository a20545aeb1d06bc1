//! The answer's body, which fails when the upstream falls silent.

use crate::{observe, timer::Timer};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Instant;
use tower_ai_core::{BoxError, Refusable, Silence, SilentPhase};

pin_project! {
    /// The inner service's body, or the watchdog's own answer.
    ///
    /// While somebody waits for a frame longer than the limit for gaps, it drops the inner body and fails with
    /// [`Silence`]. A frame that is there is always given out first.
    pub struct ResponseBody<R: Body> {
        #[pin]
        inner: Refusable<Watched<R>>,
    }
}

impl<R: Body> ResponseBody<R> {
    pub(crate) fn new(held: Option<Held<R>>, body: R, gap: Duration) -> Self {
        Self {
            inner: Refusable::inner(Watched {
                held,
                body: Some(body),
                timer: Timer::default(),
                gap,
                waits: false,
            }),
        }
    }

    pub(crate) fn refusal(inner: Refusable<Watched<R>>) -> Self {
        Self { inner }
    }
}

impl<R> Body for ResponseBody<R>
where
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<R: Body> fmt::Debug for ResponseBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

/// What the first poll of the body gave, until it is asked for.
pub(crate) struct Held<R: Body> {
    /// The body's size before that poll.
    pub(crate) hint: SizeHint,
    pub(crate) frame: Option<Result<Frame<R::Data>, R::Error>>,
}

pin_project! {
    pub(crate) struct Watched<R: Body> {
        held: Option<Held<R>>,
        // `None` once it was silent.
        #[pin]
        body: Option<R>,
        #[pin]
        timer: Timer,
        gap: Duration,
        // Somebody is waiting for a frame; the timer counts from there.
        waits: bool,
    }
}

impl<R> Body for Watched<R>
where
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        if let Some(held) = this.held.take() {
            return Poll::Ready(held.frame.map(|frame| frame.map_err(Into::into)));
        }
        let mut rang = false;
        loop {
            let Some(body) = this.body.as_mut().as_pin_mut() else {
                return Poll::Ready(None);
            };
            if let Poll::Ready(frame) = body.poll_frame(cx) {
                *this.waits = false;
                return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
            }
            if !*this.waits {
                *this.waits = true;
                this.timer.as_mut().set(Instant::now(), *this.gap);
            }
            ready!(this.timer.as_mut().poll(cx));
            if rang {
                let silence = Silence {
                    phase: SilentPhase::Gap,
                    limit: *this.gap,
                };
                observe::silent(silence);
                this.body.set(None); // cancels the call
                return Poll::Ready(Some(Err(silence.into())));
            }
            rang = true; // one more look at the body
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.held, &self.body) {
            (Some(held), _) => held.hint,
            (None, Some(body)) => body.size_hint(),
            (None, None) => SizeHint::with_exact(0),
        }
    }
}
