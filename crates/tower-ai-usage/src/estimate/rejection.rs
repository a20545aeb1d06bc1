//! Why a request does not go on, and what its caller is told.

use http::StatusCode;
use std::{fmt, time::Duration};
use tower_ai_core::{InvalidEstimate, LayerKind, MAX_ESTIMATE_TOKENS, Refusal, RefusalKind};
use tower_ai_wire::RequestError;

/// Why a request does not go on. It costs nothing: no inner layer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The body is over the limit of so many bytes.
    TooLarge { limit: usize },
    /// The body did not arrive in time.
    TooSlow,
    /// There was no memory for the body in time.
    NoMemory,
    /// The body itself failed: the caller is gone, most likely.
    Broken,
    /// An AI call that cannot be understood.
    Request(RequestError),
    /// A count that the caller brought and no call can have.
    InvalidCount { field: &'static str },
    /// An estimate above all bounds.
    Estimate(InvalidEstimate),
    /// No price, where one is demanded.
    Unpriced,
}

impl Rejection {
    pub(super) fn into_refusal(self) -> Refusal {
        let message = self.to_string();
        let refusal = |kind, code| Refusal::new(LayerKind::Estimate, kind, code, message);
        match &self {
            Self::TooLarge { .. } => refusal(RefusalKind::TooLarge, "body_too_large"),
            Self::TooSlow => {
                refusal(RefusalKind::Timeout, "request_timeout").status(StatusCode::REQUEST_TIMEOUT)
            }
            Self::NoMemory => {
                refusal(RefusalKind::Unavailable, "server_busy").retry_after(Duration::from_secs(1))
            }
            Self::Request(RequestError::InvalidJson { .. }) => {
                refusal(RefusalKind::InvalidRequest, "invalid_json")
            }
            Self::Request(RequestError::InvalidField { field, .. }) if is_count(field) => {
                refusal(RefusalKind::InvalidRequest, "invalid_estimate")
            }
            Self::InvalidCount { .. } | Self::Estimate(_) => {
                refusal(RefusalKind::InvalidRequest, "invalid_estimate")
            }
            Self::Broken | Self::Request(_) => refusal(RefusalKind::InvalidRequest, "invalid_request"),
            Self::Unpriced => refusal(RefusalKind::NotFound, "model_not_found"),
        }
    }
}

/// Whether a field of a request says how many tokens there will be.
fn is_count(field: &str) -> bool {
    field == "n" || field.ends_with("_tokens")
}

/// For the caller: it names fields and limits, and never repeats a value.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "the body is larger than {limit} bytes"),
            Self::TooSlow => f.write_str("the body took too long to arrive"),
            Self::NoMemory => f.write_str("there are too many large requests at the moment"),
            Self::Broken => f.write_str("the body broke off"),
            Self::Request(error) => error.fmt(f),
            Self::InvalidCount { field } => {
                write!(
                    f,
                    "`{field}` must be a whole number from 0 to {MAX_ESTIMATE_TOKENS}"
                )
            }
            Self::Estimate(error) => error.fmt(f),
            Self::Unpriced => f.write_str("there is no price for this model, so it is not served"),
        }
    }
}
