//! How an answer's body is cut into events.

use http::HeaderMap;

/// How an answer's body is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// `text/event-stream`.
    Sse,
    /// One JSON document.
    Json,
}

impl Framing {
    /// By the content type; `None` when it is neither, or when the body has a content encoding (it cannot be read).
    pub fn of(_headers: &HeaderMap) -> Option<Self> {
        todo!()
    }
}
