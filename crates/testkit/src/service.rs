//! The inner service of every layer test: it answers as it is told, and records what it saw.

use crate::{
    Answer, ScriptError, ScriptedBody,
    answer::Outcome,
    permits::{Permit, Permits},
};
use bytes::{Bytes, BytesMut};
use http::{Extensions, HeaderMap, Method, Request, Response, Uri};
use http_body::Body;
use std::{
    error::Error,
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};
use tower_service::Service;

/// What the probe says when an instance is called that was not polled ready.
pub const NOT_READY: &str = "the inner service was called on an instance that was not polled ready";

/// A service whose readiness and answers are scripted. Clones share what they saw, but not their readiness.
///
/// ```
/// use http::Request;
/// use testkit::{Answer, ProbeService, ScriptedBody};
/// use tower::ServiceExt;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let probe = ProbeService::new(|_n| Answer::ok(ScriptedBody::of(["hi"])).header("x-served-by", "probe"));
/// let request = Request::post("/v1/messages").body(ScriptedBody::of(["{}"])).unwrap();
/// let response = probe.clone().oneshot(request).await.unwrap();
/// assert_eq!(response.headers()["x-served-by"], "probe");
/// assert_eq!(probe.seen()[0].body, "{}");
/// # });
/// ```
pub struct ProbeService {
    shared: Arc<Shared>,
    /// Of this instance only.
    permit: Option<Permit>,
    pending_left: usize,
}

struct Shared {
    answer: Box<dyn Fn(usize) -> Answer + Send + Sync>,
    ready_after: usize,
    failing: Option<ScriptError>,
    permits: Arc<Permits>,
    seen: Mutex<Vec<SeenRequest>>,
}

impl ProbeService {
    /// Answers the `n`-th call, counted from 0, with `answer(n)`.
    pub fn new(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::from(Shared {
            answer: Box::new(answer),
            ready_after: 0,
            failing: None,
            permits: Arc::new(Permits::new(usize::MAX)),
            seen: Mutex::default(),
        })
    }

    /// At most `calls` are ready or running at a time; further instances wait. 0: never ready.
    pub fn capacity(self, calls: usize) -> Self {
        self.with(|shared| shared.permits = Arc::new(Permits::new(calls)))
    }

    /// Each instance is ready only after this many polls, and wakes at once in between.
    pub fn ready_after(self, polls: usize) -> Self {
        self.with(|shared| shared.ready_after = polls)
    }

    /// `poll_ready` fails.
    pub fn failing_readiness(self, message: impl Into<String>) -> Self {
        self.with(|shared| shared.failing = Some(ScriptError(message.into())))
    }

    /// The requests so far, in the order of their calls.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.shared.seen().clone()
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.shared.seen().len()
    }

    /// Instances that are ready and not called, plus calls whose future is neither done nor dropped.
    pub fn permits_out(&self) -> usize {
        self.shared.permits.out()
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared =
            Arc::into_inner(self.shared).expect("a probe is configured before it is cloned or polled");
        change(&mut shared);
        Self::from(shared)
    }
}

impl From<Shared> for ProbeService {
    fn from(shared: Shared) -> Self {
        let pending_left = shared.ready_after;
        Self {
            shared: Arc::new(shared),
            permit: None,
            pending_left,
        }
    }
}

impl Clone for ProbeService {
    /// A clone is not ready, whatever the original is.
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            permit: None,
            pending_left: self.shared.ready_after,
        }
    }
}

impl<B> Service<Request<B>> for ProbeService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<ScriptedBody>;
    type Error = ScriptError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ScriptError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ScriptError>> {
        if let Some(error) = &self.shared.failing {
            return Poll::Ready(Err(error.clone()));
        }
        if self.permit.is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.pending_left > 0 {
            self.pending_left -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.shared.permits.poll_take(cx).map(|permit| {
            self.permit = Some(permit);
            Ok(())
        })
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let permit = self.permit.take().expect(NOT_READY);
        self.pending_left = self.shared.ready_after;
        let (parts, body) = request.into_parts();
        let n = self.shared.record(&parts);
        let answer = (self.shared.answer)(n);
        let shared = self.shared.clone();
        Box::pin(async move {
            let _running = permit;
            if !answer.before_body {
                shared.read(n, body).await?;
            }
            for _ in 0..answer.pending {
                tokio::task::yield_now().await;
            }
            if let Some(delay) = answer.delay {
                tokio::time::sleep(delay).await;
            }
            match answer.outcome {
                Outcome::Head(response) => Ok(response),
                Outcome::Error(error) => Err(error),
                Outcome::Never => std::future::pending().await,
            }
        })
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Vec<SeenRequest>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, parts: &http::request::Parts) -> usize {
        let mut seen = self.seen();
        seen.push(SeenRequest {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
            extensions: parts.extensions.clone(),
            body: Bytes::new(),
            trailers: None,
            is_whole: false,
        });
        seen.len() - 1
    }

    async fn read<B>(&self, n: usize, body: B) -> Result<(), ScriptError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut body = pin!(body);
        let mut read = BytesMut::new();
        while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let frame = frame.map_err(|error| ScriptError(error.into().to_string()))?;
            match frame.into_data() {
                Ok(data) => {
                    read.extend_from_slice(&data);
                    self.seen()[n].body = read.clone().freeze();
                }
                Err(frame) => self.seen()[n].trailers = frame.into_trailers().ok(),
            }
        }
        self.seen()[n].is_whole = true;
        Ok(())
    }
}

impl fmt::Debug for ProbeService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeService")
            .field("is_ready", &self.permit.is_some())
            .field("calls", &self.calls())
            .field("permits_out", &self.permits_out())
            .finish_non_exhaustive()
    }
}

/// A request as it reached the inner service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SeenRequest {
    /// Its method.
    pub method: Method,
    /// Its target.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its extensions.
    pub extensions: Extensions,
    /// The data that was read of its body so far.
    pub body: Bytes,
    /// The trailers of its body.
    pub trailers: Option<HeaderMap>,
    /// Whether the body was read to its end.
    pub is_whole: bool,
}
