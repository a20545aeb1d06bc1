//! What is read of requests, in samples of our own wording.

use std::error::Error;
use tower_ai_core::Operation::{ChatCompletions, Messages};
use tower_ai_wire::{AiRequest, RequestError, operation, read_request};

fn chat(body: &str) -> Result<AiRequest, RequestError> {
    read_request(ChatCompletions, body.as_bytes())
}

fn bound(members: &str) -> Result<Option<u64>, RequestError> {
    chat(&format!(r#"{{"model":"m",{members}}}"#)).map(|request| request.output_bound)
}

/// The field that is wrong.
fn wrong(members: &str) -> &'static str {
    match bound(members) {
        Err(RequestError::InvalidField { field, .. }) => field,
        other => panic!("{members}: {other:?}"),
    }
}

#[test]
fn operations_are_told_by_method_and_path_end() {
    use http::Method;
    assert_eq!(
        operation(&Method::POST, "/v1/chat/completions"),
        Some(ChatCompletions)
    );
    assert_eq!(
        operation(&Method::POST, "/openai/deployments/x/chat/completions"),
        Some(ChatCompletions)
    );
    assert_eq!(operation(&Method::POST, "/messages"), Some(Messages));
    assert_eq!(operation(&Method::GET, "/v1/messages"), None);
    assert_eq!(operation(&Method::POST, "/v1/messages/count_tokens"), None);
    assert_eq!(operation(&Method::POST, "/v1/my-messages"), None);
}

#[test]
fn a_plain_request_is_read() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"user","content":"?"}]}"#;
    let request = chat(body).unwrap();
    assert_eq!(
        (request.model.as_str(), request.stream, request.usage_asked),
        ("m", false, false)
    );
    assert_eq!(
        (request.output_bound, request.choices, request.messages),
        (None, 1, 2)
    );
    assert_eq!(
        (request.tools, request.attachments, request.text_bytes),
        (false, 0, body.len() as u64)
    );
    assert_eq!(request.service_tier, None);
}

#[test]
fn everything_that_can_be_asked_for_is_read() {
    let request = chat(
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"tools":[{}],"n":3,
            "max_tokens":50,"service_tier":"priority","input_tokens":900}"#,
    );
    let request = request.unwrap();
    assert!(request.stream && request.usage_asked && request.tools);
    assert_eq!((request.choices, request.output_bound), (3, Some(150)));
    assert_eq!(request.service_tier.as_deref(), Some("priority"));
}

#[test]
fn usage_comes_unasked_from_anthropic() {
    let request = read_request(Messages, br#"{"model":"m","max_tokens":9,"n":4,"stream":true}"#).unwrap();
    assert!(request.usage_asked);
    assert_eq!((request.choices, request.output_bound), (1, Some(9)));
}

#[test]
fn of_two_bounds_the_larger_is_reserved() {
    for both in [
        r#""max_tokens":50,"max_completion_tokens":10"#,
        r#""max_tokens":10,"max_completion_tokens":50"#,
        r#""max_tokens":50,"max_completion_tokens":null"#,
    ] {
        assert_eq!(bound(both), Ok(Some(50)), "{both}");
    }
    assert_eq!(bound(r#""max_tokens":10000000,"n":100"#), Ok(Some(1_000_000_000)));
}

#[test]
fn what_an_upstream_may_ignore_bounds_nothing() {
    assert_eq!(bound(r#""max_output_tokens":30"#), Ok(None));
    assert_eq!(bound(r#""max_output_tokens":0,"max_tokens":7"#), Ok(Some(7)));
    assert_eq!(bound(r#""max_completion_tokens":0"#), Ok(None));
    assert!(
        bound(r#""max_output_tokens":-1"#).is_err(),
        "but it has to be sane"
    );
    assert!(bound(r#""input_tokens":10000001"#).is_err());
}

#[test]
fn of_duplicate_members_the_last_wins() {
    assert_eq!(
        bound(r#""max_tokens":50,"max_tokens":60,"max_\u0074okens":70"#),
        Ok(Some(70))
    );
}

#[test]
fn a_bound_that_cannot_be_meant_is_named() {
    for value in [
        "-1",
        "10000001",
        "99999999999999999999999",
        "1.5",
        "1e3",
        "\"9\"",
        "true",
        "[]",
        "{}",
    ] {
        for field in [
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "input_tokens",
        ] {
            assert_eq!(wrong(&format!("\"{field}\":{value}")), field, "{value}");
        }
    }
    assert_eq!(
        wrong(r#""max_completion_tokens":5,"max_tokens":-1"#),
        "max_tokens"
    );
    for value in ["0", "-1", "1.5", "\"2\"", "99999999999"] {
        assert_eq!(wrong(&format!("\"n\":{value}")), "n");
    }
    assert_eq!(wrong(r#""stream":"yes""#), "stream");
    assert_eq!(
        wrong(r#""stream":true,"stream_options":{"include_usage":1}"#),
        "stream_options.include_usage"
    );
    assert_eq!(wrong(r#""model":7"#), "model");
}

#[test]
fn a_request_needs_a_model() {
    for body in [
        "{}",
        r#"{"model":null}"#,
        r#"{"model":""}"#,
        r#"{"model":" "}"#,
        r#"{"x":{"model":"m"}}"#,
    ] {
        assert_eq!(chat(body), Err(RequestError::MissingModel), "{body}");
    }
}

#[test]
fn what_is_no_json_object_is_named_by_its_place() {
    let place = |body: &[u8]| match read_request(ChatCompletions, body) {
        Err(RequestError::InvalidJson { line, column }) => (line, column),
        other => panic!("{other:?}"),
    };
    assert_eq!(place(b"{\"model\":\"m\",\n \"n\":}").0, 2);
    assert_eq!(place(b"{\"model\":\"m\",\n \"n\xFF\":1}"), (2, 4));
    for body in [
        "",
        "[]",
        "7",
        "\"model\"",
        "{\"model\":\"m\"} x",
        "{\"model\":\"m\"}{}",
        "{\"model\":\"m\"",
        "{'model':'m'}",
    ] {
        place(body.as_bytes());
    }
}

#[test]
fn messages_name_the_field_and_never_its_value() {
    let error = chat(r#"{"model":"m","max_tokens":"secret"}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`max_tokens` must be a whole number from 0 to 10,000,000"
    );
    let error: Box<dyn Error> = chat("secret").unwrap_err().into();
    assert_eq!(
        error.to_string(),
        "the body is not a JSON object (line 1, column 1)"
    );
    assert_eq!(RequestError::MissingModel.to_string(), "`model` is missing");
}

#[test]
fn payloads_are_no_text() {
    let payload = "QUFB".repeat(1000);
    let read = |operation, part: String| {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        let request = read_request(operation, body.as_bytes()).unwrap();
        (request.attachments, body.len() as u64 - request.text_bytes)
    };
    let all = payload.len() as u64;
    let image = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{payload}"}}}}"#);
    assert_eq!(read(ChatCompletions, image.clone()), (1, all));
    assert_eq!(read(ChatCompletions, format!("{image},{image}")), (2, 2 * all));
    let audio = format!(r#"{{"type":"input_audio","input_audio":{{"data":"{payload}","format":"wav"}}}}"#);
    assert_eq!(read(ChatCompletions, audio), (1, all));
    let file = format!(r#"{{"type":"file","file":{{"file_data":"data:application/pdf;base64,{payload}"}}}}"#);
    assert_eq!(read(ChatCompletions, file), (1, all));
    let link = r#"{"type":"image_url","image_url":{"url":"https://example.invalid/a.png"}}"#;
    assert_eq!(read(ChatCompletions, link.into()), (1, 0));
    let text = format!(r#"{{"type":"text","text":"{payload}"}}"#);
    assert_eq!(read(ChatCompletions, text), (0, 0));

    let source = format!(r#"{{"type":"base64","media_type":"image/png","data":"{payload}"}}"#);
    let image = format!(r#"{{"type":"image","source":{source}}}"#);
    assert_eq!(read(Messages, image.clone()), (1, all));
    assert_eq!(
        read(
            Messages,
            format!(r#"{{"type":"tool_result","content":[{image}]}}"#)
        ),
        (1, all)
    );
    let plain = format!(r#"{{"type":"document","source":{{"type":"text","data":"{payload}"}}}}"#);
    assert_eq!(read(Messages, plain), (1, 0));
}

#[test]
fn nesting_does_not_reach_the_stack() {
    let nested = |open: &str, close: &str| {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        chat(&format!(r#"{{"model":"m","messages":{deep}}}"#))
            .unwrap()
            .messages
    };
    assert_eq!(nested("[", "]"), 1);
    assert_eq!(nested("[{\"content\":", "}]"), 1);
}
