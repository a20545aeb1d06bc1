//! The body of the attempt that serves the call.

use crate::{answer::Answer, classify, events::StreamEnd, observe};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower_ai_core::{BoxError, Reason};
use tower_ai_wire::error_event;

pin_project! {
    /// The body of the attempt that serves the call: what was held back, then each frame as it comes.
    ///
    /// Of an event stream only whole events are passed on. One that breaks off ends with an error event in the caller's
    /// dialect and then cleanly, never with a terminal marker; one that is complete ends as it does. The body of anything
    /// else breaks off as the upstream's does. Once the answer is over, the upstream's body is dropped at once.
    pub struct FailoverBody<B> {
        // Dropped first: it cancels the upstream.
        inner: Option<Pin<Box<B>>>,
        answer: Answer,
        error: Option<BoxError>,
        #[pin]
        deadline: Option<Sleep>,
        is_armed: bool,
        candidate: Arc<str>,
    }
}

impl<B> FailoverBody<B> {
    /// `inner` is `None` when all of it is in the answer.
    pub(crate) fn new(
        inner: Option<Pin<Box<B>>>,
        mut answer: Answer,
        deadline: Option<Instant>,
        candidate: Arc<str>,
    ) -> Self {
        answer.commit();
        let inner = inner.filter(|_| !answer.is_over());
        Self {
            deadline: deadline.filter(|_| inner.is_some()).map(sleep_until),
            inner,
            answer,
            error: None,
            is_armed: false,
            candidate,
        }
    }
}

/// Why a stream ends before its time.
enum Cut {
    /// The upstream's body failed.
    Failed(BoxError),
    /// It ended without its terminal marker.
    Truncated,
    /// The call's deadline passed.
    Deadline,
}

impl<B> FailoverBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Reads on. `Pending`: there is nothing new, and the deadline has not passed.
    fn poll_inner(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut() else {
            return Poll::Ready(());
        };
        let polled = inner.as_mut().poll_frame(cx);
        let is_late = match this.deadline.as_mut().as_pin_mut() {
            None => false,
            // Polled once so that it runs; then only when there is nothing to do, or looked at.
            Some(deadline) if polled.is_pending() || !*this.is_armed => {
                *this.is_armed = true;
                deadline.poll(cx).is_ready()
            }
            Some(deadline) => deadline.is_elapsed(),
        };
        let cut = match polled {
            Poll::Pending if is_late => Cut::Deadline,
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Err(error))) => Cut::Failed(error.into()),
            Poll::Ready(None) if this.answer.pass_end() == StreamEnd::Cut => Cut::Truncated,
            Poll::Ready(None) => {
                *this.inner = None;
                return Poll::Ready(());
            }
            Poll::Ready(Some(Ok(frame))) => {
                let is_last = frame.is_trailers();
                this.answer.pass(frame);
                if this.answer.is_over() {
                    *this.inner = None;
                    observe::cut(this.candidate, "error_event");
                    return Poll::Ready(());
                }
                match is_last {
                    true if this.answer.pass_end() == StreamEnd::Cut => Cut::Truncated,
                    true => {
                        *this.inner = None;
                        return Poll::Ready(());
                    }
                    false if is_late => Cut::Deadline,
                    false => return Poll::Ready(()),
                }
            }
        };
        *this.inner = None;
        this.deadline.set(None);
        end(this.answer, this.error, this.candidate, cut);
        Poll::Ready(())
    }
}

/// Ends an answer before its time: a stream by an error event, anything else by the error.
fn end(answer: &mut Answer, error: &mut Option<BoxError>, candidate: &str, cut: Cut) {
    let reason = match &cut {
        Cut::Failed(error) => classify::fault(error).to_string(),
        Cut::Truncated => Reason::Truncated.to_string(),
        Cut::Deadline => "deadline".to_owned(),
    };
    let label = match &cut {
        Cut::Failed(error) => classify::fault(error).label(),
        Cut::Truncated => Reason::Truncated.label(),
        Cut::Deadline => "deadline",
    };
    match answer.events() {
        // Its terminal marker came: nothing of it is missing.
        Some(events) if events.ending() == StreamEnd::Complete => {}
        Some(events) => {
            let message = format!("the stream was interrupted: {reason}");
            let event = error_event(events.dialect(), "stream_interrupted", &message);
            answer.append(event);
            observe::cut(candidate, label);
        }
        None => {
            *error = Some(match cut {
                Cut::Failed(error) => error,
                Cut::Truncated | Cut::Deadline => DeadlineExceeded.into(),
            });
            observe::cut(candidate, label);
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
        loop {
            let this = self.as_mut().project();
            if let Some(data) = this.answer.next_data() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            if this.inner.is_none() {
                let last = match this.error.take() {
                    Some(error) => Some(Err(error)),
                    None => this.answer.take_trailers().map(Frame::trailers).map(Ok),
                };
                return Poll::Ready(last);
            }
            std::task::ready!(self.as_mut().poll_inner(cx));
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_left = self.answer.is_drained() && self.error.is_none();
        nothing_left
            && match &self.inner {
                None => true,
                // A stream may still get an error event.
                Some(inner) => inner.is_end_stream() && self.answer.keeps_length(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let queued = self.answer.queued_bytes();
        let Some(inner) = &self.inner else {
            return SizeHint::with_exact(queued);
        };
        let mut hint = SizeHint::new();
        if self.answer.keeps_length() {
            let rest = inner.size_hint();
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
            .field("is_over", &self.inner.is_none())
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
