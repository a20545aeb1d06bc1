//! Request bodies that nobody wants any more are read to their end all the same.
//!
//! A server that refuses early (a wrong key, a body over the limit) and closes while its client is still sending makes the
//! kernel reset the connection, and the reset destroys the refusal on its way: the client sees a broken pipe where it
//! should see a 413. RFC 9112, section 9.6, asks servers to linger.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::timeout;

/// What is read and thrown away of one request, at most; then the connection is closed.
const MAX_BYTES: usize = 64 << 20;
/// For how long.
const MAX_TIME: Duration = Duration::from_secs(10);

/// A request's body; dropped before its end, the rest is read and thrown away.
#[derive(Debug)]
pub struct Lingering(Option<Incoming>);

impl Lingering {
    /// Lingers over `body`.
    pub fn new(body: Incoming) -> Self {
        Self(Some(body))
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0
            .as_ref()
            .map_or(SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) {
            // The connection feeds the body, and ends it when the client leaves.
            tokio::spawn(timeout(MAX_TIME, discard(Limited::new(body, MAX_BYTES))));
        }
    }
}

async fn discard(mut body: Limited<Incoming>) {
    while let Some(Ok(_)) = body.frame().await {}
}
