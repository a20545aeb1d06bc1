//! What the request asks a model for: names and numbers, no parsing (that is `tower-ai-wire`).

use std::sync::Arc;

/// Whose request and response shapes a call speaks. Nothing is ever translated from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI and the compatible crowd.
    OpenAi,
    /// Anthropic.
    Anthropic,
}

impl Dialect {
    /// The name in labels and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }
}

/// One operation of a provider's API that costs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// OpenAI `POST …/chat/completions`.
    ChatCompletions,
    /// Anthropic `POST …/messages`.
    Messages,
}

impl Operation {
    /// The dialect it belongs to.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::ChatCompletions => Dialect::OpenAi,
            Self::Messages => Dialect::Anthropic,
        }
    }

    /// The operation's own path: what follows an upstream's base, and what a client's `base_url` precedes.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/chat/completions",
            Self::Messages => "/messages",
        }
    }

    /// The name in labels and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Messages => "messages",
        }
    }
}

/// The call as read from the request. **Put by** Estimate; **read by** failover, usage and limits.
/// Absent: not a known AI call; request-count limits only, and the route for any call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AiCall {
    /// Which operation, and with it which dialect.
    pub operation: Operation,
    /// The model as asked for; it is the model that is served.
    pub model: Arc<str>,
    /// Whether the answer is asked for as a stream.
    pub stream: bool,
    /// Whether the caller asked for usage in the stream (`stream_options.include_usage` of OpenAI).
    /// If not, what we ask for on our own account is stripped again.
    pub usage_asked: bool,
}

impl AiCall {
    /// A call that is not streamed and asks for no usage.
    pub fn new(operation: Operation, model: impl Into<Arc<str>>) -> Self {
        Self {
            operation,
            model: model.into(),
            stream: false,
            usage_asked: false,
        }
    }

    /// Sets whether the answer is a stream.
    pub fn stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    /// Sets whether the caller asked for usage in the stream.
    pub fn usage_asked(mut self, asked: bool) -> Self {
        self.usage_asked = asked;
        self
    }

    /// The dialect of the operation.
    pub fn dialect(&self) -> Dialect {
        self.operation.dialect()
    }
}

/// What went wrong at a provider, told by its body first and its status second.
///
/// Source: the error bodies of 15 providers; what each class leads to stands in `ARCHITECTURE.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The prompt is longer than the model's context.
    ContextLength,
    /// Malformed or unsupported request.
    InvalidRequest,
    /// A content policy refused it.
    ContentFilter,
    /// The body is too large for the upstream.
    PayloadTooLarge,
    /// The key is wrong or missing.
    Auth,
    /// The key may not do this.
    Permission,
    /// The upstream does not serve this model.
    ModelNotFound,
    /// Out of credit, or over a long quota.
    Quota,
    /// Too many requests or tokens for now.
    RateLimit,
    /// The upstream is overloaded.
    Overloaded,
    /// The upstream failed.
    ServerError,
    /// The upstream gave up waiting.
    Timeout,
    /// A conflicting request is running.
    Conflict,
    /// The answer was cut before its end.
    Truncated,
}

impl ErrorClass {
    /// The name in labels, logs and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContextLength => "context_length",
            Self::InvalidRequest => "invalid_request",
            Self::ContentFilter => "content_filter",
            Self::PayloadTooLarge => "payload_too_large",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::ModelNotFound => "model_not_found",
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Conflict => "conflict",
            Self::Truncated => "truncated",
        }
    }
}
