//! Answers of Anthropic messages, in samples of our own wording.

mod scan;

use scan::Scan;
use tower_ai_core::{ErrorClass, Operation, TokenCounts};
use tower_ai_wire::{
    Ending::{self, Complete, Incomplete, Open},
    EventKind::{self, Content, LifeSign, Prelude, Terminal},
};

/// A stream of these events, framed as Anthropic does.
fn events<'a>(events: impl IntoIterator<Item = &'a str>) -> Scan {
    let frame = |event: &str| {
        // Samples that are wrapped for reading are one line on the wire.
        let event: String = event.lines().map(str::trim_start).collect();
        let json: serde_json::Value = serde_json::from_str(&event).expect("a sample is JSON");
        format!(
            "event: {}\ndata: {event}  \n\n",
            json["type"].as_str().expect("an event has a type")
        )
    };
    Scan::stream(
        Operation::Messages,
        &events.into_iter().map(frame).collect::<String>(),
    )
}

fn document(text: &str) -> Scan {
    Scan::document(Operation::Messages, text)
}

fn start(usage: &str) -> String {
    format!(r#"{{"type":"message_start","message":{{"model":"m-1","content":[],"usage":{usage}}}}}"#)
}

fn end(usage: &str) -> String {
    format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{usage}}}"#)
}

/// The counts of a stream that starts and ends with these usages.
fn counts(first: &str, last: &str) -> TokenCounts {
    events([start(first).as_str(), &end(last), STOP])
        .usage
        .expect("usage was told")
}

const PING: &str = r#"{"type": "ping"}"#;
const OPEN_TEXT: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const HELLO: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#;
const CLOSE: &str = r#"{"type":"content_block_stop","index":0}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

#[test]
fn a_stream_goes_from_prelude_over_content_to_its_end() {
    let (start, end) = (
        start(r#"{"input_tokens":9,"output_tokens":1,"service_tier":"standard"}"#),
        end(r#"{"output_tokens":5}"#),
    );
    let scan = events([&start, OPEN_TEXT, PING, HELLO, HELLO, CLOSE, &end, STOP]);
    assert_eq!(
        scan.kinds(),
        [
            Prelude, Prelude, LifeSign, Content, Content, Prelude, Terminal, Terminal
        ]
    );
    assert_eq!(scan.usage, Some(TokenCounts::new(9, 5)));
    assert!(scan.usage_is_final);
    assert_eq!(scan.ending, Complete);
    assert_eq!(
        (scan.model.as_deref(), scan.service_tier.as_deref()),
        (Some("m-1"), Some("standard"))
    );
}

#[test]
fn blocks_that_say_something_by_themselves_are_content() {
    let kind = |block: &str| {
        let event = format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#);
        events([event.as_str()]).kinds().remove(0)
    };
    for block in [
        r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#,
        r#"{"type":"server_tool_use","name":"web_search","input":{}}"#,
        r#"{"type":"redacted_thinking","data":"AA"}"#,
        r#"{"type":"text","text":"a"}"#,
    ] {
        assert_eq!(kind(block), Content, "{block}");
    }
    for block in [
        r#"{"type":"text","text":""}"#,
        r#"{"type":"thinking","thinking":"","signature":""}"#,
        r#"{"type":"compaction","content":null}"#,
        r#"{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}"#,
    ] {
        assert_eq!(kind(block), Prelude, "{block}");
    }
}

#[test]
fn deltas_are_content_unless_they_are_empty() {
    let kind = |delta: &str| {
        let event = format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
        events([event.as_str()]).kinds().remove(0)
    };
    for delta in [
        r#"{"type":"thinking_delta","thinking":"a"}"#,
        r#"{"type":"input_json_delta","partial_json":"{"}"#,
        r#"{"type":"signature_delta","signature":"AA"}"#,
        r#"{"type":"compaction_delta","content":"a"}"#,
    ] {
        assert_eq!(kind(delta), Content, "{delta}");
    }
    assert_eq!(kind(r#"{"type":"input_json_delta","partial_json":""}"#), Prelude);
    assert_eq!(kind(r#"{"type":"text_delta","text":""}"#), Prelude);
}

#[test]
fn later_totals_replace_member_by_member() {
    let grown = counts(
        r#"{"input_tokens":43,"output_tokens":1}"#,
        r#"{"input_tokens":61,"output_tokens":2}"#,
    );
    assert_eq!(grown, TokenCounts::new(61, 2));
    let kept = counts(
        r#"{"input_tokens":43,"output_tokens":1}"#,
        r#"{"input_tokens":null,"output_tokens":2}"#,
    );
    assert_eq!(kept, TokenCounts::new(43, 2));
}

#[test]
fn cache_reads_and_writes_are_part_of_the_input() {
    let counts = counts(
        r#"{"input_tokens":3,"cache_read_input_tokens":100,"cache_creation_input_tokens":30,
            "cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}"#,
        r#"{"output_tokens":8}"#,
    );
    assert_eq!(
        (counts.input, counts.input_uncached(), counts.output),
        (133, 3, 8)
    );
    assert_eq!(
        (counts.cached_read, counts.cache_write_5m, counts.cache_write_1h),
        (100, 10, 20)
    );
}

#[test]
fn written_tokens_that_come_later_have_the_lifetimes_of_the_first() {
    let written = |five: u64, hour: u64, total: u64| {
        let first = format!(
            r#"{{"input_tokens":1,"cache_creation_input_tokens":{},
                "cache_creation":{{"ephemeral_5m_input_tokens":{five},"ephemeral_1h_input_tokens":{hour}}}}}"#,
            five + hour
        );
        let last = format!(r#"{{"cache_creation_input_tokens":{total},"output_tokens":1}}"#);
        let counts = counts(&first, &last);
        assert_eq!(counts.cache_write(), total);
        (counts.cache_write_5m, counts.cache_write_1h)
    };
    assert_eq!(written(10, 0, 25), (25, 0));
    assert_eq!(written(0, 10, 25), (0, 25));
    assert_eq!(written(0, 0, 25), (25, 0));
    assert_eq!(written(10, 20, 60), (20, 40));
    assert_eq!(written(10, 20, 31), (10, 21));
}

#[test]
fn iterations_are_summed() {
    let counts = counts(
        r#"{"input_tokens":100,"cache_read_input_tokens":5000,"output_tokens":7}"#,
        r#"{"input_tokens":181,"cache_read_input_tokens":0,"output_tokens":8,"output_tokens_details":{"thinking_tokens":4},
            "iterations":[
                {"type":"compaction","input_tokens":100,"output_tokens":83,"cache_read_input_tokens":5000},
                {"type":"message","input_tokens":181,"output_tokens":8}]}"#,
    );
    assert_eq!((counts.input, counts.output), (5281, 91));
    assert_eq!((counts.cached_read, counts.reasoning), (5000, 4));
}

#[test]
fn a_second_start_begins_again() {
    let (first, second) = (
        start(r#"{"input_tokens":90,"cache_read_input_tokens":9,"output_tokens":50}"#),
        start(r#"{"input_tokens":17,"output_tokens":1}"#),
    );
    let end = end(r#"{"output_tokens":65}"#);
    let scan = events([&first, HELLO, &end, &second, HELLO]);
    assert_eq!(
        (scan.usage, scan.usage_is_final, scan.ending),
        (Some(TokenCounts::new(17, 1)), false, Open)
    );
    let scan = events([&first, HELLO, &second, HELLO, &end, STOP]);
    assert_eq!(
        (scan.usage, scan.usage_is_final, scan.ending),
        (Some(TokenCounts::new(17, 65)), true, Complete)
    );
}

#[test]
fn web_searches_are_counted_apart() {
    let counts = counts(
        r#"{"input_tokens":1,"output_tokens":1}"#,
        r#"{"input_tokens":900,"output_tokens":20,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":5}}"#,
    );
    assert_eq!((counts.input, counts.web_searches), (900, 2));
}

#[test]
fn the_start_alone_is_not_the_final_usage() {
    let scan = events([
        &start(r#"{"input_tokens":9,"output_tokens":1}"#),
        OPEN_TEXT,
        HELLO,
    ]);
    assert_eq!(scan.usage, Some(TokenCounts::new(9, 1)));
    assert!(!scan.usage_is_final);
    assert_eq!(scan.ending, Open);
}

#[test]
fn totals_that_no_stop_reason_came_with_are_final_at_the_stop() {
    let start = start(r#"{"input_tokens":9,"output_tokens":1}"#);
    let delta = r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":5}}"#;
    assert!(!events([&start, HELLO, delta]).usage_is_final);
    assert!(events([&start, HELLO, delta, STOP]).usage_is_final);
    assert!(
        !events([&start, HELLO, STOP]).usage_is_final,
        "the start tells a first value only"
    );
}

#[test]
fn stop_reasons_tell_what_is_missing() {
    let ending = |reason: &str| {
        let end = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":1}}}}"#
        );
        events([&start("{}"), &end, STOP]).ending
    };
    for reason in ["end_turn", "tool_use", "stop_sequence", "pause_turn"] {
        assert_eq!(ending(reason), Complete, "{reason}");
    }
    for reason in ["max_tokens", "model_context_window_exceeded", "refusal"] {
        assert_eq!(ending(reason), Incomplete, "{reason}");
    }
}

#[test]
fn an_error_event_is_an_error_with_or_without_its_name() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"full"}}"#;
    let class = |kind: &EventKind| match kind {
        EventKind::Error(error) => Some(error.class),
        _ => None,
    };
    let scan = events([&start(r#"{"input_tokens":9,"output_tokens":1}"#), HELLO, error]);
    assert_eq!(class(&scan.kinds()[2]), Some(ErrorClass::Overloaded));
    assert_eq!((scan.ending, scan.usage_is_final), (Ending::Error, false));
    let nameless = Scan::stream(Operation::Messages, &format!("data: {error}\n\n"));
    assert_eq!(class(&nameless.kinds()[0]), Some(ErrorClass::Overloaded));
}

#[test]
fn a_document_is_read_whole() {
    let scan = document(
        r#"{"type":"message","model":"m-1","content":[{"type":"text","text":"Hello"}],"stop_reason":"max_tokens",
            "usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":2,"service_tier":"priority"}}"#,
    );
    assert_eq!((scan.kinds(), scan.ending), (vec![Content], Incomplete));
    let usage = scan.usage.unwrap();
    assert_eq!((usage.input, usage.cached_read, usage.output), (10, 7, 2));
    assert!(scan.usage_is_final);
    assert_eq!(scan.service_tier.as_deref(), Some("priority"));
}

#[test]
fn an_error_document_in_a_200_is_an_error() {
    let scan = document(r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#);
    assert!(matches!(&scan.kinds()[0], EventKind::Error(error) if error.class == ErrorClass::RateLimit));
}
