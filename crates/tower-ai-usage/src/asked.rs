//! Which AI call a request is.

use http::{header::CONTENT_TYPE, request::Parts};
use tower_ai_core::{AiCall, Operation};
use tower_ai_wire::AiRequest;

/// The operation of a request. A gRPC method may be called as it likes.
pub(crate) fn operation_of(parts: &Parts) -> Option<Operation> {
    let is_grpc = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    tower_ai_wire::operation(&parts.method, parts.uri.path()).filter(|_| !is_grpc)
}

pub(crate) fn ai_call(operation: Operation, request: &AiRequest) -> AiCall {
    AiCall::new(operation, request.model.as_str())
        .stream(request.stream)
        .usage_asked(request.usage_asked)
}
