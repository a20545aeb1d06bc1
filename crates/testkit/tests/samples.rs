//! The samples are what the providers' own clients can read.

use serde_json::Value;
use testkit::{Sample, anthropic, openai};

fn events(sample: &Sample) -> Vec<Value> {
    let body = String::from_utf8(sample.bytes().to_vec()).expect("text");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

#[test]
fn a_chat_stream_says_the_same_as_its_document() {
    let chat = openai::Chat::new(["a \"quoted\"", "\n", "line"]).usage(7, 3);
    let document: Value = serde_json::from_slice(&chat.completion().bytes()).unwrap();
    let stream = events(&chat.stream_with_usage());
    let content: String = stream
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(document["choices"][0]["message"]["content"], content);
    assert_eq!(document["usage"], stream.last().unwrap()["usage"]);
    assert_eq!(document["usage"]["total_tokens"], 10);
}

#[test]
fn a_chat_stream_speaks_of_usage_only_when_asked() {
    let chat = openai::Chat::new(["hi"]);
    assert!(
        events(&chat.stream())
            .iter()
            .all(|chunk| chunk.get("usage").is_none())
    );
    assert!(
        events(&chat.stream_with_usage())
            .iter()
            .all(|chunk| chunk.get("usage").is_some())
    );
    assert!(chat.stream().bytes().ends_with(b"data: [DONE]\n\n"));
}

#[test]
fn a_chat_answers_as_it_is_asked() {
    let chat = openai::Chat::new(["hi"]);
    let ask = |request: &str| chat.clone().answering(request.as_bytes());
    let named = chat.clone().model("gpt-5-mini");
    assert_eq!(ask(r#"{"model":"gpt-5-mini"}"#), named.completion());
    assert_eq!(ask(r#"{"model":"gpt-5-mini","stream":true}"#), named.stream());
    let with_usage = r#"{"model":"gpt-5-mini","stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(ask(with_usage), named.stream_with_usage());
    assert_eq!(ask("{").status, 400);
    assert_eq!(ask("{}").status, 400);
}

#[test]
fn a_message_stream_says_the_same_as_its_document() {
    let message = anthropic::Message::new(["a \"quoted\"", "\n", "line"]).usage(7, 3);
    let document: Value = serde_json::from_slice(&message.document().bytes()).unwrap();
    let stream = events(&message.stream());
    let text: String = stream
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    assert_eq!(document["content"][0]["text"], text);
    assert_eq!(document["usage"]["output_tokens"], 3);
    assert_eq!(stream[0]["message"]["usage"]["input_tokens"], 7);
    assert_eq!(stream[stream.len() - 2]["usage"]["output_tokens"], 3);
    assert_eq!(stream.last().unwrap()["type"], "message_stop");
    let kinds = String::from_utf8(message.stream().bytes().to_vec()).unwrap();
    assert_eq!(kinds.matches("event: ").count(), stream.len());
}

#[test]
fn errors_have_the_shape_of_their_dialect() {
    let body: Value = serde_json::from_slice(&openai::context_length().bytes()).unwrap();
    assert_eq!(body["error"]["code"], "context_length_exceeded");
    let overloaded = anthropic::overloaded();
    let body: Value = serde_json::from_slice(&overloaded.bytes()).unwrap();
    assert_eq!(
        (overloaded.status, &body["error"]["type"]),
        (529, &Value::from("overloaded_error"))
    );
    assert!(
        openai::rate_limited(3)
            .headers
            .contains(&("retry-after".into(), "3".into()))
    );
}
