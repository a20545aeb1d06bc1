//! What an error of a provider means, and how ours look inside a stream.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::time::Duration;
use tower_ai_core::{Dialect, ErrorClass};

/// An error of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireError {
    /// What it means.
    pub class: ErrorClass,
    /// How long the provider asks to be left alone, if it says so.
    pub retry_after: Option<Duration>,
}

/// Classifies an error answer: by its body first, by its status second. Also for a 200 whose body is an error.
pub fn classify(_status: StatusCode, _headers: &HeaderMap, _body: &[u8]) -> WireError {
    todo!()
}

/// The event that tells a client of this dialect that its stream broke, in the shape that the official SDKs raise.
/// `code` is machine readable (`stream_interrupted`); no terminal marker follows it.
pub fn error_event(_dialect: Dialect, _code: &str, _message: &str) -> Bytes {
    todo!()
}
