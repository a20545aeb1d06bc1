//! What a request asks for.

use crate::json::{Object, Value};
use std::{error::Error, fmt};
use tower_ai_core::{Dialect, MAX_ESTIMATE_TOKENS, Operation};

/// Levels of content inside content that are searched for attachments (a tool's result may hold images).
const MAX_CONTENT_DEPTH: usize = 4;

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

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidJson { line, column } => {
                write!(f, "the body is not a JSON object (line {line}, column {column})")
            }
            Self::MissingModel => f.write_str("`model` is missing"),
            Self::InvalidField { field, expected } => write!(f, "`{field}` must be {expected}"),
        }
    }
}

impl Error for RequestError {}

/// Reads a request body of this operation.
///
/// # Errors
/// [`RequestError`] when it is no JSON object or a field that matters is invalid.
pub fn read_request(operation: Operation, body: &[u8]) -> Result<AiRequest, RequestError> {
    let text = str::from_utf8(body).map_err(|error| invalid_json_at(body, error.valid_up_to()))?;
    let request = Object::parse(text).map_err(|error| RequestError::InvalidJson {
        line: error.line().max(1),
        column: error.column().max(1),
    })?;
    let stream = flag(request.get("stream"), "stream")?;
    let choices = choices(operation, &request)?;
    let messages = request.elements("messages");
    let mut attachments = Attachments::default();
    for message in &messages {
        attachments.add_content_of(*message, MAX_CONTENT_DEPTH);
    }
    Ok(AiRequest {
        model: model(&request)?,
        stream,
        usage_asked: usage_asked(operation, &request)?,
        output_bound: output_bound(operation, &request)?.map(|bound| bound.saturating_mul(choices)),
        choices,
        messages: messages.len() as u64,
        tools: ["tools", "functions"]
            .iter()
            .any(|name| !request.elements(name).is_empty()),
        text_bytes: (body.len() as u64).saturating_sub(attachments.payload_bytes),
        attachments: attachments.count,
        service_tier: request.string("service_tier").map(Into::into),
    })
}

fn invalid_json_at(body: &[u8], offset: usize) -> RequestError {
    let before = &body[..offset];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    RequestError::InvalidJson {
        line: memchr::memchr_iter(b'\n', before).count() + 1,
        column: offset - line_start + 1,
    }
}

fn model(request: &Object<'_>) -> Result<String, RequestError> {
    let Some(model) = request.get("model") else {
        return Err(RequestError::MissingModel);
    };
    let Some(name) = model.string() else {
        return Err(RequestError::InvalidField {
            field: "model",
            expected: "a string",
        });
    };
    if name.trim().is_empty() {
        return Err(RequestError::MissingModel);
    }
    Ok(name.into_owned())
}

fn flag(value: Option<Value<'_>>, field: &'static str) -> Result<bool, RequestError> {
    value.map_or(Ok(false), |value| {
        value.bool().ok_or(RequestError::InvalidField {
            field,
            expected: "true or false",
        })
    })
}

fn usage_asked(operation: Operation, request: &Object<'_>) -> Result<bool, RequestError> {
    if operation.dialect() == Dialect::Anthropic {
        return Ok(true);
    }
    let options = request.object("stream_options");
    let asked = options.and_then(|options| options.get("include_usage"));
    flag(asked, "stream_options.include_usage")
}

fn choices(operation: Operation, request: &Object<'_>) -> Result<u64, RequestError> {
    if operation != Operation::ChatCompletions {
        return Ok(1);
    }
    match whole_number(request, "n")? {
        None => Ok(1),
        Some(n) if (1..=MAX_ESTIMATE_TOKENS).contains(&n) => Ok(n),
        Some(_) => Err(RequestError::InvalidField {
            field: "n",
            expected: "a whole number from 1",
        }),
    }
}

/// The largest of the bounds that the operation has: which of them an upstream obeys is its own choice, and what is
/// reserved must cover it. 0 bounds nothing: some servers take it for unlimited. Counts that belong to other operations
/// bound nothing either, but have to be sane.
fn output_bound(operation: Operation, request: &Object<'_>) -> Result<Option<u64>, RequestError> {
    let fields: &[&'static str] = match operation {
        Operation::ChatCompletions => &["max_completion_tokens", "max_tokens"],
        _ => &["max_tokens"],
    };
    for foreign in ["input_tokens", "max_output_tokens"] {
        tokens(request, foreign)?;
    }
    let mut bound = None;
    for field in fields {
        bound = bound.max(tokens(request, field)?.filter(|tokens| *tokens > 0));
    }
    Ok(bound)
}

fn tokens(request: &Object<'_>, field: &'static str) -> Result<Option<u64>, RequestError> {
    match whole_number(request, field)? {
        Some(count) if count > MAX_ESTIMATE_TOKENS => Err(invalid_tokens(field)),
        count => Ok(count),
    }
}

/// Digits only: a fraction, an exponent, a sign or a string cannot be a count.
fn whole_number(request: &Object<'_>, field: &'static str) -> Result<Option<u64>, RequestError> {
    request
        .get(field)
        .map(|value| value.raw().parse().map_err(|_| invalid_tokens(field)))
        .transpose()
}

fn invalid_tokens(field: &'static str) -> RequestError {
    RequestError::InvalidField {
        field,
        expected: "a whole number from 0 to 10,000,000",
    }
}

/// What is sent along besides text.
#[derive(Debug, Default)]
struct Attachments {
    count: u64,
    payload_bytes: u64,
}

impl Attachments {
    fn add_content_of(&mut self, holder: Value<'_>, depth: usize) {
        let Some(holder) = holder.object() else { return };
        if depth == 0 {
            return;
        }
        for part in holder.elements("content") {
            self.add_part(part);
            self.add_content_of(part, depth - 1);
        }
    }

    fn add_part(&mut self, part: Value<'_>) {
        let Some(part) = part.object() else { return };
        // Where each kind of part keeps its payload: OpenAI's, then Anthropic's.
        let (holder, payload) = match part.string("type").as_deref() {
            Some("image_url") => ("image_url", "url"),
            Some("video_url") => ("video_url", "url"),
            Some("input_audio") => ("input_audio", "data"),
            Some("file") => ("file", "file_data"),
            Some("image" | "document") => ("source", "data"),
            _ => return,
        };
        self.count += 1;
        let Some(value) = part.get(holder) else { return };
        let payload = match value.object() {
            // A document may be plain text, which is no payload.
            Some(source) if holder == "source" && source.string("type").as_deref() != Some("base64") => None,
            Some(object) => object.get(payload),
            // Some servers take the URL in place of the object.
            None => Some(value),
        };
        self.payload_bytes += payload.map_or(0, base64_len);
    }
}

/// Bytes of base64 in this string: all of it, or what follows the comma of a data URL. A link has none.
fn base64_len(value: Value<'_>) -> u64 {
    let Some(text) = value.inner() else { return 0 };
    let payload = match text.split_once(";base64,") {
        Some((_, payload)) => payload,
        None if text.contains(':') => "",
        None => text,
    };
    payload.len() as u64
}
