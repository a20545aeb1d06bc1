//! Splices change what they say and nothing else.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use tower_ai_core::Operation;
use tower_ai_wire::splice::{ask_for_usage, with_model, without_usage};

const CHAT: Operation = Operation::ChatCompletions;

fn asked(body: &'static str) -> Bytes {
    ask_for_usage(CHAT, &Bytes::from_static(body.as_bytes()))
}

fn renamed(body: &'static str) -> Bytes {
    with_model(CHAT, &Bytes::from_static(body.as_bytes()), "gpt \"x\"")
}

#[test]
fn usage_is_asked_for_where_nothing_was_said_of_it() {
    assert_eq!(
        asked(r#" { "stream" : true, "model":"m" } "#),
        r#" {"stream_options":{"include_usage":true}, "stream" : true, "model":"m" } "#
    );
}

#[test]
fn usage_is_asked_for_in_every_state_of_the_options() {
    let cases = [
        (
            r#"{"stream":true,"stream_options": null}"#,
            r#"{"stream":true,"stream_options": {"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{ }}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true }}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{"include_obfuscation":false}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}"#,
        ),
        (
            r#"{"stream_options":{"include_usage" : false , "x":1},"stream":true}"#,
            r#"{"stream_options":{"include_usage" : true , "x":1},"stream":true}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{"include_usage":null}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream\u005foptions":{"include_usage":false}}"#,
            r#"{"stream":true,"stream\u005foptions":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream_options":{"include_usage":false},"stream":true,"stream_options":{}}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
    ];
    for (before, after) in cases {
        assert_eq!(asked(before), after);
    }
}

#[test]
fn where_usage_is_asked_for_already_or_cannot_be_the_body_stays() {
    for body in [
        r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        r#"{"stream":false}"#,
        r#"{"messages":[{"stream":true}]}"#,
        r#"{"stream":true,"stream_options":"yes"}"#,
        "not json",
    ] {
        let body = Bytes::from_static(body.as_bytes());
        let after = ask_for_usage(CHAT, &body);
        assert_eq!(
            (after.as_ptr(), after.len()),
            (body.as_ptr(), body.len()),
            "the same bytes"
        );
    }
    let body = Bytes::from_static(br#"{"stream":true}"#);
    assert_eq!(ask_for_usage(Operation::Messages, &body), body);
}

#[test]
fn the_model_is_renamed_at_the_top_level_only() {
    let cases = [
        (
            r#"{"model":"a","tools":[{"model":"a"}]}"#,
            r#"{"model":"gpt \"x\"","tools":[{"model":"a"}]}"#,
        ),
        (
            r#"{"messages":"\"model\":\"a\"", "model" : "a" }"#,
            r#"{"messages":"\"model\":\"a\"", "model" : "gpt \"x\"" }"#,
        ),
        (r#"{"mod\u0065l":"a"}"#, r#"{"mod\u0065l":"gpt \"x\""}"#),
        (
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"gpt \"x\"","model":"gpt \"x\""}"#,
        ),
    ];
    for (before, after) in cases {
        assert_eq!(renamed(before), after);
    }
}

#[test]
fn a_model_of_that_name_already_is_not_copied() {
    let body = Bytes::from_static(br#"{"model":"a"}"#);
    assert_eq!(with_model(CHAT, &body, "a").as_ptr(), body.as_ptr());
}

#[test]
fn usage_goes_out_of_an_event_with_one_comma() {
    let cases = [
        (
            "data: {\"a\":1,\"usage\":null,\"b\":2}\r\n\r\n",
            "data: {\"a\":1,\"b\":2}\r\n\r\n",
        ),
        ("data:{\"usage\" : null , \"b\":2}\n\n", "data:{\"b\":2}\n\n"),
        (
            "id: 7\ndata: {\"a\":1 , \"usage\":{\"x\":[1,{}]} }\n\n",
            "id: 7\ndata: {\"a\":1 }\n\n",
        ),
        ("data: { \"usage\":null }\r\r", "data: {  }\r\r"),
        (
            "data: {\"usage\":null,\"usage\":{},\"b\":2,\"usage\":1}\n\n",
            "data: {\"b\":2}\n\n",
        ),
        ("data: {\"us\\u0061ge\":null,\"b\":2}\n\n", "data: {\"b\":2}\n\n"),
        (
            "\u{feff}data: {\"b\":2,\"usage\":null}\n\n",
            "\u{feff}data: {\"b\":2}\n\n",
        ),
        (
            "data: {\"b\":2,\ndata: \"usage\":null\ndata: }\n\n",
            "data: {\"b\":2\ndata: \ndata: }\n\n",
        ),
    ];
    for (before, after) in cases {
        assert_eq!(without_usage(before.as_bytes()), after, "{before}");
    }
}

#[test]
fn usage_that_is_no_member_of_the_chunk_stays() {
    for event in [
        "data: {\"choices\":[{\"usage\":{},\"delta\":{\"content\":\"\\\"usage\\\":null,\"}}]}\n\n",
        "data: [DONE]\n\n",
        ": usage\n\n",
        "data: {\"usage\":nul",
        "",
    ] {
        assert_eq!(without_usage(event.as_bytes()), event);
    }
}

/// Objects whose keys are likely to be the ones that splices look for, written with odd spacing.
fn objects() -> impl Strategy<Value = String> {
    let space = || "[ \\n\\t]{0,2}";
    let key = select(
        &[
            "model",
            "stream",
            "stream_options",
            "include_usage",
            "usage",
            "other",
            "mod\\u0065l",
        ][..],
    );
    let scalar = select(
        &[
            "null",
            "true",
            "false",
            "7",
            "-1.5e3",
            "\"m\"",
            "\"\\\"model\\\":\\\"\\\\\"",
            "\"é\\ud83d\"",
        ][..],
    );
    let leaf = scalar.prop_map(str::to_owned);
    let value = leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            object(key.clone(), inner.clone(), space()),
            vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(" , "))),
        ]
    });
    let key = select(
        &[
            "model",
            "stream",
            "stream_options",
            "usage",
            "other",
            "stream\\u005foptions",
        ][..],
    );
    object(key, value, space())
}

fn object(
    key: impl Strategy<Value = &'static str>,
    value: impl Strategy<Value = String>,
    space: &'static str,
) -> impl Strategy<Value = String> {
    let member = (key, space, space, value);
    let members = vec(
        member.prop_map(|(key, a, b, value)| format!("{a}\"{key}\"{b}:{a}{value}{b}")),
        0..5,
    );
    members.prop_map(|members| format!("{{{}}}", members.join(",")))
}

/// Parsed as most do: the last of duplicate keys wins. `None` for half a surrogate pair, which they refuse.
fn parsed(json: &[u8]) -> Option<Value> {
    serde_json::from_slice(json).ok()
}

proptest! {
    #[test]
    fn a_renamed_body_says_the_same_otherwise(body in objects(), model in ".{0,6}") {
        let after = with_model(CHAT, &body.clone().into(), &model);
        if let Some(mut expected) = parsed(body.as_bytes()) {
            if expected.get("model").is_some() {
                expected["model"] = json!(model);
            }
            prop_assert_eq!(parsed(&after), Some(expected));
        }
    }

    #[test]
    fn a_body_that_asks_for_usage_says_the_same_otherwise(body in objects()) {
        let after = ask_for_usage(CHAT, &body.clone().into());
        if let Some(mut expected) = parsed(body.as_bytes()) {
            if expected.get("stream") == Some(&json!(true)) {
                let options = &mut expected["stream_options"];
                if options.is_null() {
                    *options = json!({});
                }
                if options.is_object() {
                    options["include_usage"] = json!(true);
                }
            }
            prop_assert_eq!(parsed(&after), Some(expected));
        }
    }

    #[test]
    fn an_event_without_usage_says_the_same_otherwise(body in objects(), end in select(&["\n\n", "\r\n\r\n", ""][..])) {
        let body = body.replace('\n', " ");
        let after = without_usage(format!(": c\ndata: {body}{end}").as_bytes());
        let data = after.strip_prefix(b": c\ndata: ").and_then(|rest| rest.strip_suffix(end.as_bytes()));
        let data = data.expect("what is around the data stays");
        if let Some(mut expected) = parsed(body.as_bytes()) {
            expected.as_object_mut().expect("an object").remove("usage");
            prop_assert_eq!(parsed(data), Some(expected));
        }
    }

    #[test]
    fn bytes_around_the_change_stay(before in "[ \n]{0,3}", after in "[ \n]{0,3}", other in objects()) {
        let body = |model: &str| format!("{before}{{\"other\":{other},\"model\" : \"{model}\" {after}}}");
        prop_assert_eq!(with_model(CHAT, &body("old").into(), "new"), body("new"));
    }
}
