//! The wait for the first byte.

use crate::{
    ResponseBody,
    layer::Limits,
    observe,
    response::Held,
    timer::Timer,
    upload::{Stage, Upload},
};
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Instant;
use tower_ai_core::{
    BoxError, FirstByte, LayerKind, Refusal, RefusalFormat, RefusalKind, Silence, SilentPhase,
};

/// What the sole watchdog's caller is told to wait; failover does not wait for it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pin_project! {
    /// Resolves at the first frame of the answer's body, or when a limit is over.
    ///
    /// Dropping it drops the inner future or body: the upstream sees the call cancelled.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
        #[pin]
        timer: Timer,
        watch: Watch,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Head { #[pin] inner: F },
        // `None` once it is given out.
        FirstFrame { response: Option<Response<R>> },
        Silent,
    }
}

struct Watch {
    upload: Upload,
    limits: Limits,
    format: RefusalFormat,
    /// The stage as last looked at; `None` before the first look.
    stage: Option<Stage>,
    written_at: Option<Instant>,
}

impl<F, R> ResponseFuture<F, R> {
    pub(crate) fn new(inner: F, upload: Upload, limits: Limits, format: RefusalFormat) -> Self {
        Self {
            state: State::Head { inner },
            timer: Timer::default(),
            watch: Watch {
                upload,
                limits,
                format,
                stage: None,
                written_at: None,
            },
        }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes> + Unpin,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut rang = false;
        loop {
            // The inner service comes before the timer: an answer that is there is never thrown away.
            let phase = match this.state.as_mut().project() {
                StateProj::Head { inner } => match inner.poll(cx)? {
                    Poll::Ready(response) => {
                        this.watch.look(this.timer.as_mut());
                        if response.body().is_end_stream() || !this.watch.is_written() {
                            return Poll::Ready(Ok(this.watch.pass(response, None)));
                        }
                        let response = Some(response);
                        this.state.set(State::FirstFrame { response });
                        continue;
                    }
                    Poll::Pending => {
                        this.watch.upload.register(cx); // before looking: a change in between wakes
                        this.watch.look(this.timer.as_mut());
                        this.watch.silent_phase()
                    }
                },
                StateProj::FirstFrame { response } => {
                    let body = response.as_mut().expect("polled after it was ready").body_mut();
                    if let Poll::Ready(held) = poll_first(body, cx) {
                        let response = response.take().expect("looked at above");
                        return Poll::Ready(Ok(this.watch.pass(response, Some(held))));
                    }
                    SilentPhase::FirstBodyByte
                }
                StateProj::Silent => panic!("polled after it was ready"),
            };
            ready!(this.timer.as_mut().poll(cx));
            if rang {
                let response = this.watch.refuse(phase);
                this.state.set(State::Silent); // drops the inner future or body, which cancels the call
                return Poll::Ready(Ok(response));
            }
            rang = true; // one more look at the inner service
        }
    }
}

/// The first frame that says something: an empty one is no byte.
fn poll_first<R>(body: &mut R, cx: &mut Context<'_>) -> Poll<Held<R>>
where
    R: Body<Data = Bytes> + Unpin,
{
    loop {
        let hint = body.size_hint();
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        if !is_empty(&frame) || body.is_end_stream() {
            return Poll::Ready(Held { hint, frame });
        }
    }
}

fn is_empty<E>(frame: &Option<Result<Frame<Bytes>, E>>) -> bool {
    matches!(frame, Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty))
}

impl Watch {
    /// Sets the timer anew if the upload came to another stage.
    fn look(&mut self, timer: Pin<&mut Timer>) {
        let stage = self.upload.stage();
        if self.stage.replace(stage) == Some(stage) {
            return;
        }
        let now = Instant::now();
        match stage {
            Stage::Connecting => timer.set(now, self.limits.connect),
            Stage::Writing { .. } => timer.set(now, self.limits.upload),
            Stage::Starved => timer.stop(),
            Stage::Written => {
                self.written_at = Some(now);
                timer.set(now, self.limits.first_byte);
            }
        }
    }

    fn is_written(&self) -> bool {
        self.written_at.is_some()
    }

    fn silent_phase(&self) -> SilentPhase {
        match self.stage {
            Some(Stage::Connecting) => SilentPhase::Connect,
            Some(Stage::Written) => SilentPhase::FirstByte,
            _ => SilentPhase::Upload,
        }
    }

    /// The answer of the inner service.
    fn pass<R: Body>(&self, mut response: Response<R>, held: Option<Held<R>>) -> Response<ResponseBody<R>> {
        if let Some(written_at) = self.written_at {
            let first_byte = FirstByte(written_at.elapsed());
            observe::first_byte(first_byte);
            response.extensions_mut().insert(first_byte);
        }
        response.map(|body| ResponseBody::new(held, body, self.limits.gap))
    }

    /// The answer of the watchdog.
    fn refuse<R: Body>(&self, phase: SilentPhase) -> Response<ResponseBody<R>> {
        let limit = match phase {
            SilentPhase::Connect => self.limits.connect,
            SilentPhase::Upload => self.limits.upload,
            _ => self.limits.first_byte,
        };
        let silence = Silence { phase, limit };
        observe::silent(silence);
        if phase == SilentPhase::FirstByte {
            self.upload.phases().poison(); // nothing came: the connection may be dead, and others wait on it
        }
        let message = format!("the upstream was silent for too long ({silence})");
        let refusal = Refusal::new(
            LayerKind::TtfbWatchdog,
            RefusalKind::Timeout,
            "upstream_silent",
            message,
        );
        let mut response = refusal
            .for_this_attempt()
            .retry_after(RETRY_AFTER)
            .into_response(self.format);
        response.extensions_mut().insert(silence);
        response.map(ResponseBody::refusal)
    }
}

impl<F, R> fmt::Debug for ResponseFuture<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("stage", &self.watch.stage)
            .finish_non_exhaustive()
    }
}
