//! How the probe answers one call.

use crate::{ScriptError, ScriptedBody};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use std::time::Duration;

/// How a [`ProbeService`](crate::ProbeService) answers one call. It reads the request's body first.
#[derive(Debug)]
pub struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) pending: usize,
    pub(crate) delay: Option<Duration>,
    pub(crate) before_body: bool,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Head(Response<ScriptedBody>),
    Error(ScriptError),
    Never,
}

impl Answer {
    /// 200 with this body.
    pub fn ok(body: ScriptedBody) -> Self {
        Self::new(Outcome::Head(Response::new(body)))
    }

    /// Another status with this body.
    ///
    /// # Panics
    /// When it is no status.
    pub fn status(status: u16, body: ScriptedBody) -> Self {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).expect("a status has three digits");
        Self::new(Outcome::Head(response))
    }

    /// No response: the service fails.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Outcome::Error(ScriptError(message.into())))
    }

    /// No response, ever.
    pub fn never() -> Self {
        Self::new(Outcome::Never)
    }

    /// With this response header. Nothing to do for an answer without a head.
    ///
    /// # Panics
    /// When the name or value is not one of HTTP.
    pub fn header(self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header has a name of HTTP");
        let value: HeaderValue = value.parse().expect("a header has a value of HTTP");
        self.with_head(|response| {
            response.headers_mut().append(name, value);
        })
    }

    /// With this response extension. Nothing to do for an answer without a head.
    pub fn extension(self, extension: impl Clone + Send + Sync + 'static) -> Self {
        self.with_head(|response| {
            response.extensions_mut().insert(extension);
        })
    }

    /// Not ready for this many polls, and wakes at once in between.
    pub fn pending(mut self, polls: usize) -> Self {
        self.pending = polls;
        self
    }

    /// Not ready for this long after the request's body was read.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Answers without a look at the request's body.
    pub fn before_body(mut self) -> Self {
        self.before_body = true;
        self
    }

    fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            pending: 0,
            delay: None,
            before_body: false,
        }
    }

    fn with_head(mut self, change: impl FnOnce(&mut Response<ScriptedBody>)) -> Self {
        if let Outcome::Head(response) = &mut self.outcome {
            change(response);
        }
        self
    }
}
