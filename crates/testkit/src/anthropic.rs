//! What Anthropic sends, in its real shape and with words of our own.

use crate::Sample;
use serde_json::{Value, json};

/// A message: the same answer as a document or as a stream.
///
/// ```
/// use testkit::anthropic::Message;
///
/// let message = Message::new(["Good ", "morning"]).usage(11, 2);
/// assert!(message.document().bytes().starts_with(b"{"));
/// assert_eq!(message.stream().frames.len(), 8);
/// ```
#[derive(Clone, Debug)]
pub struct Message {
    model: String,
    pieces: Vec<String>,
    input: u64,
    output: u64,
}

impl Message {
    /// An answer that comes in these pieces. 10 tokens in, 5 out, by `claude-sonnet-4-5`.
    pub fn new<T: Into<String>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self {
            model: "claude-sonnet-4-5".into(),
            pieces: pieces.into_iter().map(Into::into).collect(),
            input: 10,
            output: 5,
        }
    }

    /// By this model.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// With these token counts.
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        (self.input, self.output) = (input, output);
        self
    }

    /// `stream: false`.
    pub fn document(&self) -> Sample {
        let (text, output) = (text(&self.pieces.concat()), self.output);
        let content = format!(r#"[{{"type":"text","text":{text}}}]"#);
        Sample::json(200, self.message(&content, r#""end_turn""#, output)).header("request-id", "req_testkit")
    }

    /// `stream: true`.
    pub fn stream(&self) -> Sample {
        let Self { input, output, .. } = self;
        let start = self.message("[]", "null", 1);
        let mut events = vec![
            event(
                "message_start",
                &format!(r#"{{"type":"message_start","message":{start}}}"#),
            ),
            event(
                "content_block_start",
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            ),
            event("ping", r#"{"type": "ping"}"#),
        ];
        for piece in &self.pieces {
            let delta = format!(r#"{{"type":"text_delta","text":{}}}"#, text(piece));
            events.push(event(
                "content_block_delta",
                &format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#),
            ));
        }
        events.push(event(
            "content_block_stop",
            r#"{"type":"content_block_stop","index":0}"#,
        ));
        events.push(event(
            "message_delta",
            &format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"input_tokens":{input},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{output}}}}}"#
            ),
        ));
        events.push(event("message_stop", r#"{"type":"message_stop"}"#));
        Sample::events(events).header("request-id", "req_testkit")
    }

    fn message(&self, content: &str, stop_reason: &str, output: u64) -> String {
        let Self { model, input, .. } = self;
        format!(
            r#"{{"model":"{model}","id":"msg_testkit","type":"message","role":"assistant","content":{content},"stop_reason":{stop_reason},"stop_sequence":null,"usage":{{"input_tokens":{input},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}},"output_tokens":{output},"service_tier":"standard"}}}}"#
        )
    }

    /// Answers a request as it asks: its model, streamed or not.
    pub fn answering(self, request: &[u8]) -> Sample {
        let Ok(request) = serde_json::from_slice::<Value>(request) else {
            return error(400, "invalid_request_error", "The body is not JSON.");
        };
        let message = match request["model"].as_str() {
            Some(model) => self.model(model),
            None => return error(400, "invalid_request_error", "model: Field required"),
        };
        match request["stream"].as_bool() {
            Some(true) => message.stream(),
            _ => message.document(),
        }
    }
}

/// 429 that passes after a while.
pub fn rate_limited(retry_after_s: u64) -> Sample {
    error(429, "rate_limit_error", "Too many tokens for now.")
        .header("retry-after", retry_after_s.to_string())
        .header("x-should-retry", "true")
}

/// 500.
pub fn server_error() -> Sample {
    error(500, "api_error", "Something failed on our side.")
}

/// 529.
pub fn overloaded() -> Sample {
    error(529, "overloaded_error", "There is too much to do.").header("x-should-retry", "true")
}

/// 400: no upstream will take it. Only its words tell it from another invalid request.
pub fn context_length() -> Sample {
    error(
        400,
        "invalid_request_error",
        "prompt is too long: 208423 tokens > 200000 maximum",
    )
}

/// 404.
pub fn model_not_found() -> Sample {
    error(404, "not_found_error", "model: there is none of this name")
}

/// An error in the shape of Anthropic.
pub fn error(status: u16, kind: &str, message: &str) -> Sample {
    Sample::json(status, error_object(kind, message).to_string()).header("request-id", "req_testkit")
}

/// An error event inside a stream.
pub fn error_event(kind: &str, message: &str) -> String {
    event("error", &error_object(kind, message).to_string())
}

fn error_object(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_testkit" })
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn text(text: &str) -> Value {
    Value::from(text)
}
