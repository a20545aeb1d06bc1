//! The signs by which an error is told, as tables.
//!
//! Source: the error bodies and documentation of 15 providers. Order matters: an empty account also calls itself a rate
//! limit, and a rate limit an invalid request.

use super::Report;
use tower_ai_core::ErrorClass;

/// What the report and the status of the answer (or the body's own, in a 200) mean together.
pub(super) fn class(report: &Report, status: Option<u16>) -> ErrorClass {
    if report.is_daily_quota {
        return ErrorClass::Quota;
    }
    if report.is_moderated {
        return ErrorClass::ContentFilter;
    }
    by_identifier(report, IDENTIFIERS)
        .or_else(|| by_phrase(report.text()))
        .or_else(|| missing_model(report.text(), status))
        .or_else(|| status.and_then(by_status))
        .or_else(|| by_identifier(report, VAGUE_IDENTIFIERS))
        .unwrap_or(match status {
            Some(400..500) => ErrorClass::InvalidRequest,
            _ => ErrorClass::ServerError,
        })
}

type Table = &'static [(ErrorClass, &'static [&'static str])];

/// Codes, types and exceptions that mean one thing whatever the status, in lower case.
const IDENTIFIERS: Table = &[
    (
        ErrorClass::Quota,
        &[
            "insufficient_quota",
            "credit_balance_exhausted",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "enforced_spend_limit_reached",
            "linked_organization_spend_limit_reached",
            "insufficient_credits",
            "insufficient_balance",
            "payment_required",
            "billing_disabled",
            "exceeded_current_quota_error",
            "servicequotaexceededexception",
            // z.ai: the balance is used up.
            "1113",
        ],
    ),
    (
        ErrorClass::ContentFilter,
        &[
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "moderation_blocked",
            "invalid_prompt",
        ],
    ),
    (
        ErrorClass::ContextLength,
        &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "model_context_window_exceeded",
        ],
    ),
    (
        ErrorClass::RateLimit,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limited",
            "too_many_requests",
            "slow_down",
            "resource_exhausted",
            "service_tier_capacity_exceeded",
            "throttlingexception",
        ],
    ),
    (
        ErrorClass::ModelNotFound,
        &[
            "model_not_found",
            "model_not_supported",
            "invalid_model",
            "model_decommissioned",
            "model_not_available",
            "not_found_error",
            "not_found",
            "deploymentnotfound",
            "resourcenotfoundexception",
        ],
    ),
    (
        ErrorClass::Auth,
        &[
            "invalid_api_key",
            "api_key_invalid",
            "authentication_error",
            "unauthenticated",
            "unrecognizedclientexception",
            "invalidsignatureexception",
            "missingauthenticationtokenexception",
            "expiredtokenexception",
        ],
    ),
    (
        ErrorClass::Permission,
        &[
            "permission_error",
            "permission_denied",
            "accessdeniedexception",
            "unsupported_country_region_territory",
        ],
    ),
    (ErrorClass::PayloadTooLarge, &["request_too_large"]),
    (
        ErrorClass::Overloaded,
        &[
            "overloaded_error",
            "server_is_overloaded",
            "engine_overloaded",
            "engine_overloaded_error",
            "overloaded",
            "capacity_exceeded",
            "flex_capacity_exceeded",
            "service_unavailable_error",
            "unavailable_error",
            "unavailable",
            "serviceunavailableexception",
        ],
    ),
    (
        ErrorClass::Timeout,
        &[
            "timeout_error",
            "timeout",
            "deadline_exceeded",
            "modeltimeoutexception",
        ],
    ),
];

/// Names so general that the status says more.
const VAGUE_IDENTIFIERS: Table = &[
    (
        ErrorClass::InvalidRequest,
        &[
            "invalid_request_error",
            "invalid_argument",
            "validationexception",
            "badrequesterror",
        ],
    ),
    (
        ErrorClass::ServerError,
        &["server_error", "api_error", "internal"],
    ),
];

/// Parts of messages, in lower case.
const PHRASES: Table = &[
    (
        ErrorClass::Quota,
        &[
            "credit balance is too low",
            "insufficient balance",
            "insufficient credits",
            "requires more credits",
            "no prepaid credits",
            "used all available credits",
            "have any credits",
            "api usage limits",
            "spend limit",
            "spending limit",
            // Cohere's trial keys.
            "api calls / month",
            // OpenRouter's free models.
            "models-per-day",
        ],
    ),
    (
        ErrorClass::ContentFilter,
        &[
            "safety system",
            "content filtering policy",
            "violating our usage policy",
            "content exists risk",
            "unsafe or sensitive content",
            "flagged by moderation",
            "content management policy",
            "violates usage guidelines",
        ],
    ),
    (
        ErrorClass::ContextLength,
        &[
            "prompt is too long",
            "input is too long for requested model",
            "exceed context limit",
            "exceeds the available context size",
            "context size has been exceeded",
            "maximum context length",
            "maximum prompt length",
            "prompt exceeds max length",
            "longer than the maximum model length",
            "model's context length",
            "exceeded model token limit",
            "total number of tokens in the prompt",
            "too many tokens: ",
            "too many input tokens",
            "input token count",
            "context window",
            // Servers on text-generation-inference.
            "`inputs` tokens + `max_new_tokens` must be",
        ],
    ),
    (
        ErrorClass::Auth,
        &[
            "invalid x-api-key",
            "api key not valid",
            "incorrect api key",
            "invalid api key",
        ],
    ),
    (ErrorClass::Overloaded, &["loading model", "overloaded"]),
    (ErrorClass::Permission, &["user location is not supported"]),
    // Envoy's answers when it reached no upstream.
    (
        ErrorClass::ServerError,
        &["upstream connect error", "no healthy upstream"],
    ),
];

fn by_identifier(report: &Report, table: Table) -> Option<ErrorClass> {
    let class = table
        .iter()
        .find(|(_, names)| report.identifiers().any(|name| names.contains(&name)));
    class.map(|(class, _)| *class)
}

fn by_phrase(text: &str) -> Option<ErrorClass> {
    let class = PHRASES
        .iter()
        .find(|(_, phrases)| phrases.iter().any(|phrase| text.contains(phrase)));
    class.map(|(class, _)| *class)
}

/// Some say with a 400, and in words only, that they do not serve the model.
fn missing_model(text: &str, status: Option<u16>) -> Option<ErrorClass> {
    const SAID: &[&str] = &["invalid model", "unknown model", "is not a valid model"];
    const SAID_OF_THE_MODEL: &[&str] = &[
        "not exist",
        "not found",
        "identifier is invalid",
        "is not supported. supported models",
    ];
    if !matches!(status, Some(400 | 404 | 422) | None) {
        return None;
    }
    let is_said = SAID.iter().any(|phrase| text.contains(phrase));
    let is_said_of = |model| {
        SAID_OF_THE_MODEL
            .iter()
            .any(|phrase| near(text, model).contains(phrase))
    };
    let is_missing = is_said || text.match_indices("model").any(|(at, _)| is_said_of(at));
    is_missing.then_some(ErrorClass::ModelNotFound)
}

/// What stands at `start`, as far as a model's name and a few words go.
fn near(text: &str, start: usize) -> &str {
    const BYTES: usize = 120;
    let mut end = text.len().min(start + BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[start..end]
}

fn by_status(status: u16) -> Option<ErrorClass> {
    Some(match status {
        401 => ErrorClass::Auth,
        402 => ErrorClass::Quota,
        403 => ErrorClass::Permission,
        404 => ErrorClass::ModelNotFound,
        408 | 504 | 524 => ErrorClass::Timeout,
        409 => ErrorClass::Conflict,
        413 => ErrorClass::PayloadTooLarge,
        429 => ErrorClass::RateLimit,
        // Groq's flex tier is full.
        498 | 503 | 529 => ErrorClass::Overloaded,
        424 | 500..600 => ErrorClass::ServerError,
        _ => return None,
    })
}
