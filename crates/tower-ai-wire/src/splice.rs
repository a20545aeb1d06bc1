//! Changes of a request body by bytes: everything that is not meant stays as it was, white space and order too.
//!
//! Each function takes a body that [`read_request`](crate::read_request) accepted, and returns it unchanged (the same
//! bytes, not copied) when there is nothing to change.

use bytes::Bytes;
use tower_ai_core::Operation;

/// Asks for usage in the stream: sets `stream_options.include_usage`, keeping other members of `stream_options`.
pub fn ask_for_usage(_operation: Operation, _body: &Bytes) -> Bytes {
    todo!()
}

/// Names another model: the upstream's own name for it.
pub fn with_model(_operation: Operation, _body: &Bytes, _model: &str) -> Bytes {
    todo!()
}

/// Takes `usage` out of one event: `"usage":null` members, or the usage object that was not asked for. The event's
/// other bytes, line ends and spacing too, stay as they were.
pub fn without_usage(_event: &[u8]) -> Bytes {
    todo!()
}
