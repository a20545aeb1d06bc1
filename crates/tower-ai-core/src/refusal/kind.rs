//! What kind of answer a refusal is, and how that is known in the process.

use crate::LayerKind;
use http::StatusCode;
use std::time::Duration;

/// Whom a refusal concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// This attempt: another candidate may do.
    Attempt,
    /// The caller: no candidate will do.
    Caller,
}

/// What kind of answer a refusal is. It decides the default status and the error types of the dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// 400: the request cannot be understood.
    InvalidRequest,
    /// 401: nobody is known to be calling.
    MissingCaller,
    /// 404: there is no such model.
    NotFound,
    /// 413: too large, or too dear, ever to pass.
    TooLarge,
    /// 429: too much for now.
    RateLimit,
    /// 429, or 402 by choice: the money is used up.
    Quota,
    /// 503: what is needed to answer is not there.
    Unavailable,
    /// 504: the upstream was silent.
    Timeout,
    /// 500: the stack is set up so that it cannot answer.
    Misconfigured,
}

impl RefusalKind {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::MissingCaller => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimit | Self::Quota => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(super) const fn openai_type(self) -> &'static str {
        match self {
            Self::InvalidRequest | Self::NotFound | Self::TooLarge => "invalid_request_error",
            Self::MissingCaller => "authentication_error",
            Self::RateLimit => "rate_limit_error",
            Self::Quota => "insufficient_quota",
            Self::Unavailable | Self::Timeout | Self::Misconfigured => "server_error",
        }
    }

    pub(super) fn anthropic_type(self, status: StatusCode) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::MissingCaller => "authentication_error",
            Self::NotFound => "not_found_error",
            Self::TooLarge => "request_too_large",
            Self::Quota if status == StatusCode::PAYMENT_REQUIRED => "billing_error",
            Self::RateLimit | Self::Quota => "rate_limit_error",
            Self::Unavailable => "overloaded_error",
            Self::Timeout => "timeout_error",
            Self::Misconfigured => "api_error",
        }
    }
}

/// Says that a layer answered by itself. A response extension: nothing an upstream sends can forge one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedBy {
    /// Which layer.
    pub layer: LayerKind,
    /// Whom it concerns.
    pub scope: Scope,
    /// What kind of answer it is.
    pub kind: RefusalKind,
    /// The error code in the body.
    pub code: &'static str,
    /// When the same call may pass, if that is known.
    pub retry_after: Option<Duration>,
}
