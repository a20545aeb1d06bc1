//! What the simulated upstreams answer: real shapes, invented words.

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};
use tower_ai_core::Dialect;

/// Between two events of a stream: slow enough to be seen.
const PACE: Duration = Duration::from_millis(20);

/// Words of an upstream that talks a lot.
const TALKATIVE: usize = 500;

/// An answer to one request: some words, and the tokens that they come to (one a word; four bytes of prompt a token).
pub(super) struct Answer {
    dialect: Dialect,
    model: String,
    words: Vec<String>,
    prompt_tokens: u64,
    truncated: bool,
    usage_asked: bool,
}

impl Answer {
    pub(super) fn to(dialect: Dialect, behaviour: &str, request: &Value) -> Self {
        let model = request["model"].as_str().unwrap_or_default();
        let text = format!(
            "This is the simulated upstream {behaviour:?} speaking, and {model} is what you asked for. Nothing was \
             thought about your prompt; the tokens are counted all the same, and they cost invented money. "
        );
        let length = if behaviour == "talkative" {
            TALKATIVE
        } else {
            text.split_inclusive(' ').count()
        };
        let words = text.split_inclusive(' ').cycle().take(length);
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        let bound = ["max_completion_tokens", "max_tokens"]
            .iter()
            .find_map(|bound| request[bound].as_u64())
            .map_or(usize::MAX, |bound| usize::try_from(bound).unwrap_or(usize::MAX));
        let truncated = words.len() > bound;
        words.truncate(bound);
        Self {
            dialect,
            model: model.to_owned(),
            words,
            prompt_tokens: request["messages"].to_string().len().div_ceil(4) as u64,
            truncated,
            usage_asked: request["stream_options"]["include_usage"] == true,
        }
    }

    pub(super) fn whole(&self) -> Value {
        let text = self.words.concat();
        match self.dialect {
            Dialect::Anthropic => json!({
                "id": "msg_demo", "type": "message", "role": "assistant", "model": self.model,
                "content": [{ "type": "text", "text": text }],
                "stop_reason": self.anthropic_stop(), "stop_sequence": null,
                "usage": { "input_tokens": self.prompt_tokens, "output_tokens": self.words.len() },
            }),
            _ => json!({
                "id": "chatcmpl-demo", "object": "chat.completion", "created": 1_716_000_000, "model": self.model,
                "choices": [{
                    "index": 0, "message": { "role": "assistant", "content": text },
                    "finish_reason": self.openai_stop(),
                }],
                "usage": self.openai_usage(),
            }),
        }
    }

    pub(super) fn stream(&self) -> Paced {
        match self.dialect {
            Dialect::Anthropic => Paced::new(self.anthropic_events()),
            _ => Paced::new(self.openai_events()),
        }
    }

    fn openai_events(&self) -> Vec<Bytes> {
        let chunk = |choices: Value, usage: Value| {
            let mut chunk = json!({
                "id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 1_716_000_000,
                "model": self.model, "choices": choices,
            });
            if self.usage_asked {
                chunk["usage"] = usage;
            }
            event(None, &chunk)
        };
        let choice =
            |delta: Value, stop: Value| json!([{ "index": 0, "delta": delta, "finish_reason": stop }]);
        let mut events = vec![chunk(
            choice(json!({ "role": "assistant", "content": "" }), Value::Null),
            Value::Null,
        )];
        events.extend(
            self.words
                .iter()
                .map(|word| chunk(choice(json!({ "content": word }), Value::Null), Value::Null)),
        );
        events.push(chunk(choice(json!({}), self.openai_stop().into()), Value::Null));
        if self.usage_asked {
            events.push(chunk(json!([]), self.openai_usage()));
        }
        events.push(Bytes::from_static(b"data: [DONE]\n\n"));
        events
    }

    fn anthropic_events(&self) -> Vec<Bytes> {
        let start = json!({ "type": "message_start", "message": {
            "id": "msg_demo", "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": self.prompt_tokens, "output_tokens": 1 },
        }});
        let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" }});
        let word = |word: &String| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": word }});
        let end = [
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta",
                    "delta": { "stop_reason": self.anthropic_stop(), "stop_sequence": null },
                    "usage": { "output_tokens": self.words.len() }}),
            json!({ "type": "message_stop" }),
        ];
        let events = [start, block]
            .into_iter()
            .chain(self.words.iter().map(word))
            .chain(end);
        events.map(|data| event(data["type"].as_str(), &data)).collect()
    }

    fn openai_usage(&self) -> Value {
        let completion = self.words.len() as u64;
        json!({
            "prompt_tokens": self.prompt_tokens, "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        })
    }

    fn openai_stop(&self) -> &'static str {
        if self.truncated { "length" } else { "stop" }
    }

    fn anthropic_stop(&self) -> &'static str {
        if self.truncated { "max_tokens" } else { "end_turn" }
    }
}

/// The body of an error in this dialect.
pub(super) fn error(dialect: Dialect, kind: &str, message: &str) -> Value {
    match dialect {
        Dialect::Anthropic => json!({ "type": "error", "error": { "type": kind, "message": message }}),
        _ => json!({ "error": { "message": message, "type": kind, "param": null, "code": null }}),
    }
}

fn event(name: Option<&str>, data: &Value) -> Bytes {
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n").into(),
        None => format!("data: {data}\n\n").into(),
    }
}

/// Events up to the first content: they come at once, as those of a healthy upstream do.
const OPENING: usize = 3;

/// A body of events, one every 20 ms after the opening; it tells when its reader leaves early.
pub(super) struct Paced {
    events: VecDeque<Bytes>,
    next: Pin<Box<Sleep>>,
}

impl Paced {
    fn new(mut events: Vec<Bytes>) -> Self {
        let opening: Vec<Bytes> = events.drain(..OPENING.min(events.len())).collect();
        let mut events = VecDeque::from(events);
        events.push_front(opening.concat().into());
        Self {
            events,
            next: Box::pin(sleep(Duration::ZERO)),
        }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.events.is_empty() {
            return Poll::Ready(None);
        }
        ready!(self.next.as_mut().poll(cx));
        self.next = Box::pin(sleep(PACE));
        Poll::Ready(self.events.pop_front().map(|event| Ok(Frame::data(event))))
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        if !self.events.is_empty() {
            tracing::info!(
                events_left = self.events.len(),
                "demo upstream: the gateway hung up"
            );
        }
    }
}
