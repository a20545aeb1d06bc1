//! What OpenAI sends, in its real shape and with words of our own.

use crate::Sample;
use serde_json::{Value, json};

/// A chat completion: the same answer as a document or as a stream.
///
/// ```
/// use testkit::openai::Chat;
///
/// let chat = Chat::new(["Good ", "morning"]).usage(11, 2);
/// assert!(chat.completion().bytes().ends_with(b"}"));
/// assert_eq!(chat.stream().frames.len(), 5); // role, two pieces, finish, [DONE]
/// assert_eq!(chat.stream_with_usage().frames.len(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct Chat {
    model: String,
    pieces: Vec<String>,
    input: u64,
    output: u64,
}

impl Chat {
    /// An answer that comes in these pieces. 10 tokens in, 5 out, by `gpt-5`.
    pub fn new<T: Into<String>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self {
            model: "gpt-5".into(),
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
    pub fn completion(&self) -> Sample {
        let Self { model, .. } = self;
        let (content, usage) = (text(&self.pieces.concat()), self.usage_object());
        Sample::json(
            200,
            format!(
                r#"{{"id":"chatcmpl-testkit","object":"chat.completion","created":1764547200,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":{content},"refusal":null,"annotations":[]}},"logprobs":null,"finish_reason":"stop"}}],"usage":{usage},"service_tier":"default","system_fingerprint":null}}"#
            ),
        )
        .header("x-request-id", "req_testkit")
    }

    /// `stream: true`: no member speaks of usage.
    pub fn stream(&self) -> Sample {
        self.events("")
    }

    /// `stream: true` and `include_usage: true`: null in every chunk, and one more chunk that has it.
    pub fn stream_with_usage(&self) -> Sample {
        self.events(r#","usage":null"#)
    }

    fn events(&self, member: &str) -> Sample {
        let mut events = vec![self.chunk(
            r#"{"role":"assistant","content":"","refusal":null}"#,
            "null",
            member,
        )];
        for piece in &self.pieces {
            events.push(self.chunk(&format!(r#"{{"content":{}}}"#, text(piece)), "null", member));
        }
        events.push(self.chunk("{}", r#""stop""#, member));
        if !member.is_empty() {
            let usage = format!(r#","usage":{}"#, self.usage_object());
            events.push(self.data("", &usage));
        }
        events.push("data: [DONE]\n\n".into());
        Sample::events(events).header("x-request-id", "req_testkit")
    }

    fn chunk(&self, delta: &str, finish: &str, member: &str) -> String {
        let choice = format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}"#);
        self.data(&choice, member)
    }

    fn data(&self, choices: &str, member: &str) -> String {
        let Self { model, .. } = self;
        format!(
            r#"data: {{"id":"chatcmpl-testkit","object":"chat.completion.chunk","created":1764547200,"model":"{model}","service_tier":"default","system_fingerprint":null,"choices":[{choices}]{member}}}"#
        ) + "\n\n"
    }

    fn usage_object(&self) -> String {
        let Self { input, output, .. } = self;
        let total = input + output;
        format!(
            r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total},"prompt_tokens_details":{{"cached_tokens":0,"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}}"#
        )
    }

    /// Answers a request as it asks: its model, streamed or not, with usage or not.
    pub fn answering(self, request: &[u8]) -> Sample {
        let Ok(request) = serde_json::from_slice::<Value>(request) else {
            return error(400, "invalid_request_error", None, "The body is not JSON.");
        };
        let chat = match request["model"].as_str() {
            Some(model) => self.model(model),
            None => return error(400, "invalid_request_error", None, "You must name a model."),
        };
        match (
            request["stream"].as_bool(),
            request["stream_options"]["include_usage"].as_bool(),
        ) {
            (Some(true), Some(true)) => chat.stream_with_usage(),
            (Some(true), _) => chat.stream(),
            _ => chat.completion(),
        }
    }
}

/// 429 that passes after a while.
pub fn rate_limited(retry_after_s: u64) -> Sample {
    error(
        429,
        "rate_limit_error",
        Some("rate_limit_exceeded"),
        "Too many requests for now.",
    )
    .header("retry-after", retry_after_s.to_string())
}

/// 429 that does not pass until somebody pays.
pub fn quota_exhausted() -> Sample {
    error(
        429,
        "insufficient_quota",
        Some("insufficient_quota"),
        "The quota of this account is used up.",
    )
}

/// 500.
pub fn server_error() -> Sample {
    error(500, "server_error", None, "Something failed on our side.")
}

/// 503.
pub fn overloaded() -> Sample {
    error(
        503,
        "server_error",
        Some("server_is_overloaded"),
        "There is too much to do.",
    )
}

/// 400: no upstream will take it.
pub fn context_length() -> Sample {
    let message = "This model reads at most 128000 tokens, and your messages have 131182.";
    error(
        400,
        "invalid_request_error",
        Some("context_length_exceeded"),
        message,
    )
}

/// 404.
pub fn model_not_found() -> Sample {
    error(
        404,
        "invalid_request_error",
        Some("model_not_found"),
        "There is no such model here.",
    )
}

/// An error in the shape of OpenAI.
pub fn error(status: u16, kind: &str, code: Option<&str>, message: &str) -> Sample {
    let body = json!({ "error": { "message": message, "type": kind, "param": null, "code": code } });
    Sample::json(status, body.to_string()).header("x-request-id", "req_testkit")
}

/// An error event inside a stream.
pub fn error_event(kind: &str, message: &str) -> String {
    let event = json!({ "error": { "message": message, "type": kind, "param": null, "code": null } });
    format!("data: {event}\n\n")
}

fn text(text: &str) -> Value {
    Value::from(text)
}
