//! Where a call may go, told from what is known about it.

use crate::{
    prepare::is_confined,
    routes::{Candidates, Table},
};
use bytes::Bytes;
use http::request::Parts;
use tower_ai_core::{AiCall, Call, Dialect, LayerKind, Operation, Refusal, RefusalFormat, RefusalKind};
use tower_ai_wire::{RequestError, operation, read_request};

/// Where a call may go, and which operation it is if it is a known AI call.
pub(crate) type Admitted = (Candidates, Option<Operation>);

/// Tells where a call may go.
///
/// What Estimate has read counts. Without it in the stack the body is read here, if it was read whole: `body`.
pub(crate) fn admit(
    table: &Table,
    call: &Call,
    parts: &Parts,
    format: RefusalFormat,
    body: Option<&Bytes>,
) -> Result<Admitted, Box<Refusal>> {
    if !is_confined(parts.uri.path()) {
        let message = "the path has a segment of dots";
        return Err(refusal(
            RefusalKind::InvalidRequest,
            "invalid_request",
            message.into(),
        ));
    }
    let operation = match call.ai() {
        Some(ai) => Some(ai.operation),
        None => operation(&parts.method, parts.uri.path()),
    };
    let Some(operation) = operation else {
        let candidates = table.for_any(format.dialect());
        return candidates
            .map(|candidates| (candidates, None))
            .ok_or_else(no_route);
    };
    let unread = match (call.ai(), body) {
        (Some(_), _) => None,
        (None, None) => Some(too_large()),
        (None, Some(body)) => match read_request(operation, body) {
            Ok(asked) => {
                let ai = AiCall::new(operation, asked.model)
                    .stream(asked.stream)
                    .usage_asked(asked.usage_asked);
                call.set_ai(ai);
                None
            }
            Err(error) => Some(invalid(&error)),
        },
    };
    let model = call.ai().map(|ai| &*ai.model);
    match table.for_model(model, operation.dialect()) {
        Some(candidates) => Ok((candidates, Some(operation))),
        None => Err(unread.unwrap_or_else(|| no_model(table, model, operation.dialect()))),
    }
}

fn refusal(kind: RefusalKind, code: &'static str, message: String) -> Box<Refusal> {
    Box::new(Refusal::new(LayerKind::Failover, kind, code, message))
}

fn no_route() -> Box<Refusal> {
    let message = "there is no upstream for calls of this kind";
    refusal(RefusalKind::NotFound, "model_not_found", message.to_owned())
}

fn no_model(table: &Table, model: Option<&str>, dialect: Dialect) -> Box<Refusal> {
    let message = match model {
        Some(model) if table.has_model(model) => {
            format!(
                "no upstream serves this model in the dialect `{}`",
                dialect.as_str()
            )
        }
        _ => "this model is not served".to_owned(),
    };
    refusal(RefusalKind::NotFound, "model_not_found", message)
}

fn too_large() -> Box<Refusal> {
    let message = "the body is too large to tell which model it asks for";
    refusal(RefusalKind::TooLarge, "body_too_large", message.to_owned())
}

fn invalid(error: &RequestError) -> Box<Refusal> {
    let code = match error {
        RequestError::InvalidJson { .. } => "invalid_json",
        _ => "invalid_request",
    };
    refusal(RefusalKind::InvalidRequest, code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Routes, Upstream};
    use http::Request;

    fn table() -> Table {
        let openai = Upstream::openai("o", "http://o");
        Routes::new().model("gpt-5", [openai]).check().unwrap()
    }

    fn with_any() -> Table {
        Routes::new()
            .any([Upstream::openai("any", "http://o")])
            .check()
            .unwrap()
    }

    fn asked(table: &Table, path: &str, body: &str) -> (Call, Result<Admitted, Box<Refusal>>) {
        let (parts, ()) = Request::post(path).body(()).unwrap().into_parts();
        let call = Call::default();
        let body = Bytes::copy_from_slice(body.as_bytes());
        let admitted = admit(table, &call, &parts, RefusalFormat::of(&parts), Some(&body));
        (call, admitted)
    }

    fn code(table: &Table, path: &str, body: &str) -> &'static str {
        asked(table, path, body).1.unwrap_err().refused_by().code
    }

    #[test]
    fn without_an_estimate_the_body_is_read_here_and_told_to_all_layers() {
        let (call, admitted) = asked(
            &table(),
            "/v1/chat/completions",
            r#"{"model":"gpt-5","messages":[],"stream":true}"#,
        );
        let (candidates, operation) = admitted.unwrap();
        assert_eq!(
            (candidates.len(), operation),
            (1, Some(Operation::ChatCompletions))
        );
        assert!(call.ai().is_some_and(|ai| ai.stream && &*ai.model == "gpt-5"));
    }

    #[test]
    fn a_model_without_a_route_is_not_found() {
        let body = r#"{"model":"gpt-6","messages":[]}"#;
        assert_eq!(code(&table(), "/v1/chat/completions", body), "model_not_found");
        assert!(asked(&with_any(), "/v1/chat/completions", body).1.is_ok());
    }

    #[test]
    fn a_model_that_is_served_in_another_dialect_only_is_not_found_and_the_dialect_named() {
        let body = r#"{"model":"gpt-5","max_tokens":9,"messages":[]}"#;
        let refusal = asked(&table(), "/v1/messages", body).1.unwrap_err();
        assert_eq!(refusal.refused_by().code, "model_not_found");
        assert!(format!("{refusal:?}").contains("`anthropic`"));
    }

    #[test]
    fn what_cannot_be_read_goes_to_any_or_is_refused() {
        assert_eq!(code(&table(), "/v1/chat/completions", "{"), "invalid_json");
        assert_eq!(code(&table(), "/v1/chat/completions", "{}"), "invalid_request");
        assert!(asked(&with_any(), "/v1/chat/completions", "{").1.is_ok());
    }

    #[test]
    fn a_call_that_is_no_ai_call_goes_to_any_only() {
        assert_eq!(code(&table(), "/v1/files", ""), "model_not_found");
        assert!(asked(&with_any(), "/v1/files", "").1.is_ok());
    }

    #[test]
    fn a_path_that_climbs_is_refused() {
        assert_eq!(code(&with_any(), "/v1/../admin", ""), "invalid_request");
    }
}
