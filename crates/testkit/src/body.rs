//! A body written as a script.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Sleep, sleep},
};

/// A body that does what its script says, step by step, and ends after the last one.
///
/// ```
/// use http_body_util::BodyExt;
/// use std::time::Duration;
/// use testkit::ScriptedBody;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let body = ScriptedBody::new().data("Hel").pending().data("lo").after(Duration::from_secs(3)).trailers([("sum", "5")]);
/// let watch = body.watch();
/// let whole = body.collect().await.unwrap();
/// assert_eq!(whole.trailers().unwrap()["sum"], "5");
/// assert_eq!(whole.to_bytes(), "Hello");
/// assert_eq!(watch.frames(), 3);
/// assert!(watch.is_dropped());
/// # });
/// ```
#[derive(Debug, Default)]
pub struct ScriptedBody {
    steps: VecDeque<Step>,
    exact: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    watch: BodyWatch,
}

#[derive(Debug)]
enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    Error(ScriptError),
    Pending,
    After(Duration),
    Forever,
}

impl ScriptedBody {
    /// A body with nothing in it: it ends at the first poll.
    pub fn new() -> Self {
        Self::default()
    }

    /// A body of these data frames.
    pub fn of<T: Into<Bytes>>(frames: impl IntoIterator<Item = T>) -> Self {
        frames.into_iter().fold(Self::new(), Self::data)
    }

    /// Yields a data frame.
    pub fn data(self, data: impl Into<Bytes>) -> Self {
        self.then(Step::Data(data.into()))
    }

    /// Yields a trailers frame.
    ///
    /// # Panics
    /// When a name or value is not one of HTTP.
    pub fn trailers<'a>(self, trailers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let trailers = trailers.into_iter().map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a trailer has a header's name");
            let value: HeaderValue = value.parse().expect("a trailer has a header's value");
            (name, value)
        });
        self.then(Step::Trailers(trailers.collect()))
    }

    /// Fails.
    pub fn error(self, message: impl Into<String>) -> Self {
        self.then(Step::Error(ScriptError(message.into())))
    }

    /// Is not ready once, and wakes at once.
    pub fn pending(self) -> Self {
        self.then(Step::Pending)
    }

    /// Is not ready for this long, counted from the poll that meets the step.
    pub fn after(self, delay: Duration) -> Self {
        self.then(Step::After(delay))
    }

    /// Is never ready again.
    pub fn forever(self) -> Self {
        self.then(Step::Forever)
    }

    /// Announces the exact length of its data, and turns `is_end_stream` true with its last frame, as hyper's
    /// bodies with a content-length do.
    pub fn exact_length(mut self) -> Self {
        self.exact = true;
        self
    }

    /// A handle that tells what became of this body.
    pub fn watch(&self) -> BodyWatch {
        self.watch.clone()
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push_back(step);
        self
    }

    fn data_left(&self) -> u64 {
        let lengths = self.steps.iter().map(|step| match step {
            Step::Data(data) => data.len() as u64,
            _ => 0,
        });
        lengths.sum()
    }

    fn poll_pause(&mut self, delay: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(delay)));
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = ScriptError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ScriptError>>> {
        self.watch.0.polls.fetch_add(1, Ordering::Relaxed);
        loop {
            match self.steps.front() {
                Some(Step::Forever) => return Poll::Pending,
                Some(Step::After(delay)) => {
                    let delay = *delay;
                    ready!(self.poll_pause(delay, cx));
                }
                _ => {}
            }
            let frame = match self.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(Step::Pending) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::After(_) | Step::Forever) => continue,
                Some(Step::Error(error)) => {
                    self.steps.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Step::Data(data)) => Frame::data(data),
                Some(Step::Trailers(trailers)) => Frame::trailers(trailers),
            };
            self.watch.0.frames.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(frame)));
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_frame = |step: &Step| matches!(step, Step::Data(_) | Step::Trailers(_) | Step::Error(_));
        self.exact && !self.steps.iter().any(is_frame)
    }

    fn size_hint(&self) -> SizeHint {
        if self.exact {
            SizeHint::with_exact(self.data_left())
        } else {
            SizeHint::default()
        }
    }
}

impl Drop for ScriptedBody {
    fn drop(&mut self) {
        self.watch.0.dropped.store(true, Ordering::Release);
        self.watch.0.drop_note.notify_waiters();
    }
}

/// What became of a [`ScriptedBody`]. Clones tell of the same body.
#[derive(Clone, Debug, Default)]
pub struct BodyWatch(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    frames: AtomicUsize,
    polls: AtomicUsize,
    dropped: AtomicBool,
    drop_note: Notify,
}

impl BodyWatch {
    /// Frames that were taken; an error is none.
    pub fn frames(&self) -> usize {
        self.0.frames.load(Ordering::Relaxed)
    }

    /// Times the body was polled.
    pub fn polls(&self) -> usize {
        self.0.polls.load(Ordering::Relaxed)
    }

    /// Whether the body is gone.
    pub fn is_dropped(&self) -> bool {
        self.0.dropped.load(Ordering::Acquire)
    }

    /// Waits until the body is gone.
    pub async fn dropped(&self) {
        let mut note = pin!(self.0.drop_note.notified());
        note.as_mut().enable(); // from here on, a drop is not missed
        if !self.is_dropped() {
            note.await;
        }
    }
}

/// The error that a script told a body, or a service, to fail with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(pub(crate) String);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ScriptError {}
