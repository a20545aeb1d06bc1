//! What a request asks for.

use tower_ai_core::Operation;

/// What a request body asks for, as far as estimates, limits and failover need it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AiRequest {
    /// The model by the name the caller gave.
    pub model: String,
    /// Whether the answer is asked for as a stream.
    pub stream: bool,
    /// Whether usage was asked for in the stream (`stream_options.include_usage: true`); always true for dialects that
    /// send it unasked.
    pub usage_asked: bool,
    /// The bound on output tokens that the request sets, times the number of choices.
    pub output_bound: Option<u64>,
    /// Number of choices asked for (`n`), at least 1.
    pub choices: u64,
    /// Number of messages, for the overhead of each.
    pub messages: u64,
    /// Whether tools are declared (providers add a hidden prompt for them).
    pub tools: bool,
    /// Bytes of the body without base64 payloads of images, audio and files.
    pub text_bytes: u64,
    /// Images, audio clips and files that are sent along.
    pub attachments: u64,
    /// The service tier asked for.
    pub service_tier: Option<String>,
    /// Counts of its own that a plain JSON caller may bring (`input_tokens`).
    pub input_tokens: Option<u64>,
}

/// Why a request body cannot be priced, hence not governed. Messages name the field and never repeat its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Not a JSON object; where, in bytes from the start.
    InvalidJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// No `model`, or an empty one.
    MissingModel,
    /// A field has a value that cannot be meant: a negative or absurd token count, a model that is no string.
    InvalidField {
        /// The field's name.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
}

/// Reads a request body of this operation.
///
/// # Errors
/// [`RequestError`] when it is no JSON object or a field that matters is invalid.
pub fn read_request(_operation: Operation, _body: &[u8]) -> Result<AiRequest, RequestError> {
    todo!()
}
