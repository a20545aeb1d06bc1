//! Counts that a caller brings in a body of its own shape.

use super::rejection::Rejection;
use serde::Deserialize;
use serde_json::Value;
use tower_ai_core::{
    ASSUMED_INPUT_TOKENS, ASSUMED_OUTPUT_TOKENS, Estimate, EstimateMode, MAX_ESTIMATE_TOKENS, TokenCounts,
};

#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    input_tokens: Value,
    #[serde(default)]
    max_output_tokens: Value,
}

/// The estimate from the members of a JSON object; a body that is none has no counts.
pub(super) fn estimate(body: &[u8]) -> Result<Estimate, Rejection> {
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    let input = count("input_tokens", &body.input_tokens)?;
    let output = count("max_output_tokens", &body.max_output_tokens)?;
    if input.is_none() && output.is_none() {
        return Ok(Estimate::assumed());
    }
    let counts = TokenCounts::new(
        input.unwrap_or(ASSUMED_INPUT_TOKENS),
        output.unwrap_or(ASSUMED_OUTPUT_TOKENS),
    );
    let estimate = Estimate::new(EstimateMode::Given, counts).map_err(Rejection::Estimate)?;
    Ok(match output {
        Some(bound) => estimate.with_output_bound(bound),
        None => estimate,
    })
}

fn count(field: &'static str, value: &Value) -> Result<Option<u64>, Rejection> {
    match value {
        Value::Null => Ok(None),
        value => match value.as_u64() {
            Some(count) if count <= MAX_ESTIMATE_TOKENS => Ok(Some(count)),
            _ => Err(Rejection::InvalidCount { field }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(body: &str) -> (u64, u64) {
        let estimate = estimate(body.as_bytes()).unwrap();
        (estimate.counts().input, estimate.counts().output)
    }

    #[test]
    fn what_the_caller_does_not_say_is_assumed() {
        assert_eq!(
            counts(r#"{"input_tokens": 900, "max_output_tokens": 250}"#),
            (900, 250)
        );
        assert_eq!(counts(r#"{"input_tokens": 900}"#), (900, 600));
        assert_eq!(
            counts(r#"{"max_output_tokens": 0, "input_tokens": null}"#),
            (1_200, 0)
        );
        assert_eq!(counts("{}"), (1_200, 600));
        assert_eq!(counts("not JSON"), (1_200, 600));
    }

    #[test]
    fn a_count_that_no_call_can_have_is_refused() {
        for value in [
            "-1",
            "10000001",
            "1.5",
            "1e3",
            "\"900\"",
            "[]",
            "18446744073709551616",
        ] {
            let body = format!(r#"{{"text": "x", "input_tokens": {value}}}"#);
            let rejection = estimate(body.as_bytes()).unwrap_err();
            assert_eq!(
                rejection,
                Rejection::InvalidCount {
                    field: "input_tokens"
                },
                "{value}"
            );
        }
    }
}
