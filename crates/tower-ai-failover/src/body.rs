//! The body of the attempt that serves the call.

use crate::{
    answer::Answer,
    classify,
    events::{Events, StreamEnd},
    observe,
};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower_ai_core::{BoxError, Reason};
use tower_ai_wire::error_event;

/// The body of the attempt that serves the call: what was held back, then each frame as it comes.
///
/// Of an event stream only whole events are passed on. One that breaks off ends with an error event in the caller's
/// dialect and then cleanly, never with a terminal marker; one that is complete ends as it does. The body of anything
/// else breaks off as the upstream's does. Once the answer is over, the upstream's body is dropped at once.
pub struct FailoverBody<B> {
    // Dropped first: it cancels the upstream.
    source: Option<Pin<Box<Source<B>>>>,
    answer: Answer,
    error: Option<BoxError>,
    candidate: Arc<str>,
}

pin_project! {
    /// The upstream's body, and the deadline that ends it. One box holds both, so that a `FailoverBody` is `Unpin`.
    pub(crate) struct Source<B> {
        #[pin]
        body: B,
        #[pin]
        deadline: Option<Sleep>,
        is_armed: bool,
    }
}

/// What a body says when it is polled.
type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

impl<B: Body> Source<B> {
    pub(crate) fn new(body: B, deadline: Option<Instant>) -> Pin<Box<Self>> {
        Box::pin(Self {
            body,
            deadline: deadline.map(sleep_until),
            is_armed: false,
        })
    }

    pub(crate) fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B> {
        self.project().body.poll_frame(cx)
    }

    /// Whether the deadline has passed. A waker is left if there is `nothing_else` to wait for.
    fn is_late(self: Pin<&mut Self>, nothing_else: bool, cx: &mut Context<'_>) -> bool {
        let this = self.project();
        match this.deadline.as_pin_mut() {
            None => false,
            // Once it was polled it runs, and a look is enough.
            Some(deadline) if *this.is_armed && !nothing_else => deadline.is_elapsed(),
            Some(deadline) => {
                *this.is_armed = true;
                deadline.poll(cx).is_ready()
            }
        }
    }
}

impl<B> FailoverBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// `source` is `None` when all of it is in the answer.
    pub(crate) fn new(source: Option<Pin<Box<Source<B>>>>, mut answer: Answer, candidate: Arc<str>) -> Self {
        answer.commit();
        Self {
            source: source.filter(|_| !answer.is_over()),
            answer,
            error: None,
            candidate,
        }
    }

    /// Reads on; what came, or how the answer ends, is in the answer then.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(source) = &mut self.source else {
            return Poll::Ready(());
        };
        let polled = source.as_mut().poll_frame(cx);
        let is_late = source.as_mut().is_late(polled.is_pending(), cx);
        let mut cut = None;
        match polled {
            Poll::Pending if is_late => cut = Some(Cut::Deadline),
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Err(error))) => cut = Some(Cut::Failed(error.into())),
            Poll::Ready(None) => cut = self.truncation(),
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => {
                self.answer.pass(frame);
                cut = self.truncation();
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.answer.pass(frame);
                if self.answer.is_over() {
                    observe::cut(&self.candidate, "error_event");
                } else if is_late {
                    cut = Some(Cut::Deadline);
                } else {
                    return Poll::Ready(());
                }
            }
        }
        self.source = None;
        if let Some(cut) = cut {
            self.end(cut);
        }
        Poll::Ready(())
    }

    /// The upstream's body has ended; so has its answer, or not.
    fn truncation(&mut self) -> Option<Cut> {
        (self.answer.pass_end() == StreamEnd::Cut).then_some(Cut::Truncated)
    }

    /// Ends the answer before its time: a stream by an error event, anything else by the error.
    fn end(&mut self, cut: Cut) {
        let is_complete = |events: &Events| events.ending() == StreamEnd::Complete;
        if self.answer.events().is_some_and(is_complete) {
            return; // its terminal marker came: nothing of it is missing
        }
        observe::cut(&self.candidate, cut.label());
        match self.answer.events() {
            Some(events) => {
                let message = format!("the stream was interrupted: {cut}");
                let event = error_event(events.dialect(), "stream_interrupted", &message);
                self.answer.append(event);
            }
            None => {
                self.error = match cut {
                    Cut::Failed(error) => Some(error),
                    Cut::Deadline => Some(DeadlineExceeded.into()),
                    Cut::Truncated => None, // only a stream tells
                };
            }
        }
    }
}
/// Why an answer ends before its time.
enum Cut {
    /// The upstream's body failed.
    Failed(BoxError),
    /// It ended without its terminal marker.
    Truncated,
    /// The call's deadline passed.
    Deadline,
}

impl Cut {
    fn label(&self) -> &'static str {
        match self {
            Self::Failed(error) => classify::fault(error).label(),
            Self::Truncated => Reason::Truncated.label(),
            Self::Deadline => "deadline",
        }
    }
}

/// `gap-60s`, `reset`, `deadline`: what a caller may know.
impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => classify::fault(error).fmt(f),
            other => f.write_str(other.label()),
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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            if let Some(data) = this.answer.next_data() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            if this.source.is_some() {
                ready!(this.poll_source(cx));
                continue;
            }
            let last = match this.error.take() {
                Some(error) => Some(Err(error)),
                None => this.answer.take_trailers().map(Frame::trailers).map(Ok),
            };
            return Poll::Ready(last);
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_left = self.answer.is_drained() && self.error.is_none();
        nothing_left
            && match &self.source {
                None => true,
                // A stream may still get an error event.
                Some(source) => source.body.is_end_stream() && self.answer.keeps_length(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let queued = self.answer.queued_bytes();
        let Some(source) = &self.source else {
            return SizeHint::with_exact(queued);
        };
        let mut hint = SizeHint::new();
        if self.answer.keeps_length() {
            let rest = source.body.size_hint();
            hint.set_lower(rest.lower() + queued);
            if let Some(upper) = rest.upper() {
                hint.set_upper(upper + queued);
            }
        }
        hint
    }
}

impl<B> fmt::Debug for FailoverBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailoverBody")
            .field("candidate", &self.candidate)
            .field("is_over", &self.source.is_none())
            .finish_non_exhaustive()
    }
}

/// The deadline of the call passed while its answer was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineExceeded;

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline of the call passed while its answer was under way")
    }
}

impl Error for DeadlineExceeded {}
