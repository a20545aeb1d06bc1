//! Answers of OpenAI chat completions and the compatible crowd, in samples of our own wording.

mod scan;

use scan::Scan;
use tower_ai_core::{ErrorClass, Operation, TokenCounts};
use tower_ai_wire::{
    Ending::{self, Complete, Incomplete, Open},
    EventKind::{self, Content, LifeSign, Prelude, Terminal},
    Framing, MAX_EVENT_BYTES, UsageMember,
};

fn stream(text: &str) -> Scan {
    Scan::stream(Operation::ChatCompletions, text)
}

fn document(text: &str) -> Scan {
    Scan::document(Operation::ChatCompletions, text)
}

/// A stream of these chunks.
fn chunks<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Scan {
    stream(
        &chunks
            .into_iter()
            .map(|chunk| format!("data: {chunk}\n\n"))
            .collect::<String>(),
    )
}

/// The first event of a stream that consists of a delta alone.
fn kind_of_delta(delta: &str) -> EventKind {
    let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#);
    chunks([chunk.as_str()]).kinds().remove(0)
}

/// The counts of a document with this usage.
fn counts(usage: &str) -> TokenCounts {
    document(&format!(r#"{{"choices":[],"usage":{usage}}}"#))
        .usage
        .expect("usage was told")
}

fn class(kind: &EventKind) -> Option<ErrorClass> {
    match kind {
        EventKind::Error(error) => Some(error.class),
        _ => None,
    }
}

const ROLE: &str =
    r#"{"model":"m-1","choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const HELLO: &str = r#"{"model":"m-1","choices":[{"delta":{"content":"Hello"},"finish_reason":null}]}"#;
const STOP: &str = r#"{"model":"m-1","choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const LENGTH: &str = r#"{"model":"m-1","choices":[{"delta":{},"finish_reason":"length"}]}"#;
const USAGE: &str =
    r#"{"model":"m-1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#;
const DONE: &str = "[DONE]";

#[test]
fn a_stream_goes_from_prelude_over_content_to_its_end() {
    let scan = chunks([ROLE, HELLO, STOP, USAGE, DONE]);
    assert_eq!(scan.kinds(), [Prelude, Content, Terminal, Prelude, Terminal]);
    assert_eq!(scan.usage, Some(TokenCounts::new(7, 2)));
    assert!(scan.usage_is_final);
    assert_eq!(scan.ending, Complete);
    assert_eq!(scan.model.as_deref(), Some("m-1"));
}

#[test]
fn what_the_model_says_thinks_calls_or_refuses_is_content() {
    for delta in [
        r#"{"content":"a"}"#,
        r#"{"reasoning":"a"}"#,
        r#"{"reasoning_content":"a","role":"assistant"}"#,
        r#"{"refusal":"a"}"#,
        r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#,
        r#"{"function_call":{"name":"f"}}"#,
        r#"{"audio":{"data":"AAAA"}}"#,
        r#"{"content":[{"type":"text","text":"a"}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}"#,
    ] {
        assert_eq!(kind_of_delta(delta), Content, "{delta}");
    }
}

#[test]
fn what_only_opens_an_answer_is_prelude() {
    for delta in [
        r#"{"role":"assistant"}"#,
        r#"{"role":"assistant","content":"","refusal":"","tool_calls":null}"#,
        r#"{"content":null,"tool_calls":[ ],"function_call":null,"audio":{}}"#,
        r#"{"content":[{"type":"text","text":""}]}"#,
        "{}",
        "null",
    ] {
        assert_eq!(kind_of_delta(delta), Prelude, "{delta}");
    }
    let filter = r#"{"choices":[],"model":"","prompt_filter_results":[{"prompt_index":0}]}"#;
    assert_eq!(chunks([filter]).kinds(), [Prelude]);
}

#[test]
fn comments_and_keep_alives_are_life_signs() {
    let scan =
        stream(": busy\n\n: busy\r\n\r\ndata: : keepalive\n\ndata:\n\nevent: ping\n\n\n\ndata: ping\n\n");
    assert_eq!(scan.kinds(), vec![LifeSign; scan.events.len()]);
    assert_eq!(scan.ending, Open);
}

#[test]
fn a_finish_reason_ends_an_answer_without_a_marker() {
    assert_eq!(chunks([HELLO, STOP]).ending, Complete);
    assert_eq!(chunks([HELLO, LENGTH]).ending, Incomplete);
    assert_eq!(chunks([HELLO]).ending, Open);
}

#[test]
fn the_marker_ends_an_answer_without_a_finish_reason() {
    let scan = chunks([HELLO, USAGE, DONE]);
    assert_eq!(scan.ending, Complete);
    assert!(scan.usage_is_final);
}

#[test]
fn one_choice_that_was_cut_makes_the_answer_incomplete() {
    assert_eq!(chunks([LENGTH, STOP, DONE]).ending, Incomplete);
    assert_eq!(chunks([STOP, LENGTH, DONE]).ending, Incomplete);
}

#[test]
fn the_last_usage_that_is_not_null_counts_and_is_never_added() {
    let first =
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#;
    let second =
        r#"{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
    let moderation = r#"{"choices":[],"usage":null,"moderation":{"input":{}}}"#;
    let scan = chunks([first, second, moderation]);
    assert_eq!(scan.usage, Some(TokenCounts::new(7, 2)));
    assert!(
        !scan.usage_is_final,
        "the stream was cut: more may have been generated"
    );
    assert!(chunks([first, second, moderation, DONE]).usage_is_final);
}

#[test]
fn usage_in_the_finish_chunk_is_final() {
    let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
    let scan = chunks([HELLO, finish]);
    assert!(scan.usage_is_final);
    assert_eq!(scan.usage_members(), [UsageMember::Absent, UsageMember::Beside]);
}

#[test]
fn the_extra_chunk_is_told_from_usage_beside_something() {
    let null = r#"{"choices":[{"delta":{"content":"Hello"}}],"usage":null}"#;
    let filtered =
        r#"{"choices":[],"prompt_filter_results":[{}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let members = chunks([ROLE, null, null, STOP, USAGE, filtered]).usage_members();
    use UsageMember::{Absent, Alone, Beside, Null};
    assert_eq!(members, [Absent, Null, Null, Absent, Alone, Beside]);
}

#[test]
fn usage_details_are_subsets() {
    let counts = counts(
        r#"{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140,
            "prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":20,"audio_tokens":5,"image_tokens":4},
            "completion_tokens_details":{"reasoning_tokens":11,"audio_tokens":3,"image_tokens":2},
            "server_tool_use_details":{"web_search_requests":2}}"#,
    );
    let mut expected = TokenCounts::new(100, 40);
    expected.cached_read = 30;
    expected.cache_write_other = 20;
    expected.audio_in = 5;
    expected.image_in = 4;
    expected.reasoning = 11;
    expected.audio_out = 3;
    expected.image_out = 2;
    expected.web_searches = 2;
    assert_eq!(counts, expected);
}

#[test]
fn reasoning_beside_the_completion_is_added_where_the_total_says_so() {
    let of_total = |total| {
        counts(&format!(
            r#"{{"prompt_tokens":12,"completion_tokens":1,"total_tokens":{total},
                "completion_tokens_details":{{"reasoning_tokens":90}}}}"#
        ))
    };
    assert_eq!(of_total(103).output, 91);
    assert_eq!(of_total(13).output, 1);
}

#[test]
fn cache_hits_and_misses_are_the_prompt() {
    let hit = counts(r#"{"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":6,"completion_tokens":1}"#);
    assert_eq!((hit.input, hit.cached_read, hit.input_uncached()), (70, 64, 6));
    let both = counts(
        r#"{"prompt_tokens":70,"prompt_cache_hit_tokens":64,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens":1}"#,
    );
    assert_eq!((both.input, both.cached_read), (70, 64));
}

#[test]
fn usage_that_is_told_twice_in_a_chunk_counts_once() {
    let usage = r#"{"prompt_tokens":7,"completion_tokens":2}"#;
    let finish = r#""choices":[{"delta":{},"finish_reason":"stop"}]"#;
    let twice = format!(r#"{{{finish},"x_groq":{{"usage":{usage}}},"usage":{usage}}}"#);
    let there_only = format!(r#"{{{finish},"x_groq":{{"usage":{usage}}}}}"#);
    for chunk in [twice, there_only] {
        assert_eq!(chunks([HELLO, &chunk, DONE]).usage, Some(TokenCounts::new(7, 2)));
    }
}

#[test]
fn timings_stand_in_for_usage() {
    let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":50,"prompt_n":4,"predicted_n":9}}"#;
    let scan = chunks([HELLO, finish, DONE]);
    let usage = scan.usage.unwrap();
    assert_eq!((usage.input, usage.cached_read, usage.output), (54, 50, 9));
    assert!(scan.usage_is_final);
}

#[test]
fn a_search_model_searches_once_where_it_annotates() {
    let answer = |model, notes| {
        document(&format!(
            r#"{{"model":"{model}","choices":[{{"message":{{"content":"a","annotations":{notes}}},"finish_reason":"stop"}}],
                "usage":{{"prompt_tokens":1,"completion_tokens":1}}}}"#
        ))
    };
    let searches = |scan: Scan| scan.usage.unwrap().web_searches;
    assert_eq!(
        searches(answer("x-search-preview-2025", r#"[{"type":"url_citation"}]"#)),
        1
    );
    assert_eq!(searches(answer("x-search-preview-2025", "[]")), 0);
    assert_eq!(searches(answer("x-mini", r#"[{"type":"url_citation"}]"#)), 0);
}

#[test]
fn an_error_is_seen_wherever_it_stands() {
    let beside = r#"{"error":{"code":429,"message":"slow"},"choices":[{"delta":{"content":""}}]}"#;
    let in_choice = r#"{"choices":[{"delta":{},"error":{"code":429,"message":"slow"}}]}"#;
    let in_groq = r#"{"choices":[],"x_groq":{"error":{"code":"rate_limit_exceeded"}}}"#;
    for stream_end in [
        format!("data: {beside}\n\n"),
        format!("data: {in_choice}\n\n"),
        format!("data: {in_groq}\n\n"),
        "event: error\ndata: {\"error\":{\"type\":\"rate_limit_error\"}}\n\n".into(),
        "event: error\ndata: {\"message\":\"slow\",\"status_code\":429}\n\n".into(),
        "error: {\"code\":429,\"message\":\"slow\"}\n\n".into(),
        "{\"error\":{\"code\":429,\"message\":\"slow\"}}".into(),
        "{\n  \"error\": {\n    \"code\": 429\n  }\n}\n".into(),
    ] {
        for start in [
            String::new(),
            format!("data: {ROLE}\n\n"),
            format!("data: {HELLO}\n\n"),
        ] {
            let scan = stream(&format!("{start}{stream_end}"));
            assert_eq!(scan.ending, Ending::Error, "{stream_end}");
            assert_eq!(
                class(scan.kinds().last().unwrap()),
                Some(ErrorClass::RateLimit),
                "{stream_end}"
            );
        }
    }
}

#[test]
fn an_error_stays_the_end_whatever_politely_follows() {
    let error = r#"{"error":{"message":"gone"}}"#;
    let scan = chunks([HELLO, LENGTH, error, USAGE, DONE]);
    assert_eq!(scan.ending, Ending::Error);
    assert_eq!(scan.usage, Some(TokenCounts::new(7, 2)));
    assert!(scan.usage_is_final);
}

#[test]
fn the_usage_of_a_choice_that_failed_counts() {
    let failed = r#"{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
    let scan = chunks([HELLO, failed]);
    assert_eq!(class(&scan.kinds()[1]), Some(ErrorClass::ServerError));
    assert_eq!(
        (scan.usage, scan.usage_is_final),
        (Some(TokenCounts::new(7, 2)), true)
    );
}

#[test]
fn a_null_error_is_none() {
    let chunk = r#"{"choices":[{"delta":{"content":"Hello"}}],"error":null}"#;
    assert_eq!(chunks([chunk, chunk]).kinds(), [Content, Content]);
}

#[test]
fn broken_json_before_the_first_content_is_an_error() {
    let scan = chunks([ROLE, r#"{"choices":[{"delta":{"con"#, HELLO]);
    assert_eq!(class(&scan.kinds()[1]), Some(ErrorClass::ServerError));
}

#[test]
fn broken_json_after_it_passes() {
    let scan = chunks([HELLO, r#"{"choices":[{"delta":{"con"#, STOP]);
    assert_eq!(scan.ending, Complete);
}

#[test]
fn half_a_character_is_no_reason_to_lose_the_usage() {
    let broken = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xF0\x9F\"}}]}\n\n".as_slice();
    let half_a_pair = b"data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\n".as_slice();
    let end = format!("data: {USAGE}\n\n");
    for start in [broken, half_a_pair] {
        let scan = Scan::of(Operation::ChatCompletions, Framing::Sse, [start, end.as_bytes()]);
        assert_eq!(scan.kinds(), [Content, Prelude]);
        assert_eq!(scan.usage, Some(TokenCounts::new(7, 2)));
    }
}

#[test]
fn after_the_first_content_everything_that_matters_is_still_seen() {
    let spaced = r#"{"choices" : [ { "delta" : { "content" : "x" } , "finish_reason" : "length" } ] , "usage" : { "prompt_tokens" : 7 , "completion_tokens" : 2 } }"#;
    let scan = chunks([HELLO, spaced]);
    assert_eq!(scan.kinds(), [Content, Content]);
    assert_eq!(scan.ending, Incomplete);
    assert_eq!(scan.usage, Some(TokenCounts::new(7, 2)));
}

#[test]
fn a_finish_reason_beside_content_is_seen_after_the_first_content() {
    let finish = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}"#;
    assert_eq!(chunks([HELLO, finish]).ending, Incomplete);
}

#[test]
fn an_error_beside_content_is_seen_after_the_first_content() {
    let error = r#"{"choices":[{"delta":{"content":"x"}}],"error":{"code":502,"message":"gone"}}"#;
    let scan = chunks([HELLO, error]);
    assert_eq!(class(&scan.kinds()[1]), Some(ErrorClass::ServerError));
    assert_eq!(scan.ending, Ending::Error);
}

#[test]
fn text_that_looks_like_a_member_is_text() {
    let tricky = r#"{"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":9},\"finish_reason\":\"stop\",\"error\":1"},"finish_reason":null}]}"#;
    let word = r#"{"choices":[{"delta":{"content":"usage"},"finish_reason":null}]}"#;
    let scan = chunks([HELLO, tricky, word]);
    assert_eq!(scan.kinds(), [Content, Content, Content]);
    assert_eq!((scan.ending, scan.usage), (Open, None));
}

#[test]
fn output_is_counted_by_its_bytes_and_at_least_once_an_event() {
    let long = format!(
        r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#,
        "a".repeat(400)
    );
    assert_eq!(chunks([ROLE, &long, &long, STOP]).output_tokens_seen, 200);
    let short = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    assert_eq!(chunks([ROLE, short, short, short, STOP]).output_tokens_seen, 3);
}

#[test]
fn the_message_so_far_beside_each_delta_is_not_counted() {
    let chunk =
        r#"{"choices":[{"message":{"content":"all that was said before"},"delta":{"content":"word"}}]}"#;
    assert_eq!(chunks([chunk]).output_tokens_seen, 1);
    assert_eq!(chunks([chunk, chunk]).output_tokens_seen, 2);
}

#[test]
fn an_event_that_is_too_long_passes_unread_as_content() {
    let long = format!("data: {}\n\n", "x".repeat(MAX_EVENT_BYTES));
    let scan = stream(&format!("{long}data: {STOP}\n\n"));
    assert_eq!(scan.kinds(), [Content, Terminal]);
    assert_eq!(scan.events[0].0, long.len());
    assert_eq!(scan.ending, Complete);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    for end in ["", "\n", "\r", "\r\n"] {
        let scan = stream(&format!("data: {HELLO}\n\ndata: {STOP}{end}"));
        assert_eq!(scan.kinds(), [Content, Terminal], "{end:?}");
    }
    assert_eq!(stream("data: [DONE]").ending, Complete);
}

#[test]
fn an_event_that_was_cut_is_none() {
    let scan = stream(&format!("data: {ROLE}\n\ndata: {}", &HELLO[..HELLO.len() - 1]));
    assert_eq!(scan.kinds(), [Prelude]);
    assert_eq!(scan.ending, Open);
}

#[test]
fn lines_end_as_they_like_and_data_needs_no_space() {
    for line_end in ["\n", "\r\n", "\r"] {
        let text = [
            "event: x",
            "id: 1",
            &format!("data:{HELLO}"),
            "",
            &format!("data: {STOP}"),
            "",
            "",
        ];
        let scan = stream(&text.join(line_end));
        assert_eq!(scan.kinds(), [Content, Terminal], "{line_end:?}");
    }
}

#[test]
fn a_byte_order_mark_and_data_in_several_lines_are_read() {
    let (start, end) = HELLO.split_at(HELLO.find(",\"choices").unwrap() + 1);
    let scan = stream(&format!("\u{feff}data: {start}\ndata: {end}\n\n"));
    assert_eq!(scan.kinds(), [Content]);
}

#[test]
fn the_billed_tier_is_the_one_the_answer_names() {
    let tier = r#"{"service_tier":"default","choices":[{"delta":{"content":"Hello"}}]}"#;
    assert_eq!(chunks([tier]).service_tier.as_deref(), Some("default"));
    assert_eq!(chunks([r#"{"service_tier":"","choices":[]}"#]).service_tier, None);
}

#[test]
fn a_document_is_one_event_after_life_signs() {
    let body = r#"{"model":"m-1","choices":[{"message":{"content":"Hi {"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
    let scan = document(&format!("\n \r\n{body}\n"));
    assert_eq!(scan.kinds(), [LifeSign, LifeSign, Content]);
    assert_eq!(scan.events[2].0, 4 + body.len());
    assert_eq!((scan.ending, scan.usage_is_final), (Complete, true));
    assert_eq!(scan.usage, Some(TokenCounts::new(7, 2)));
}

#[test]
fn braces_in_text_do_not_end_a_document() {
    let body = r#"{"choices":[{"message":{"content":"a \" }]}]} \\"},"finish_reason":"length"}]}"#;
    let scan = document(body);
    assert_eq!(scan.ending, Incomplete);
    assert_eq!(scan.events[0].0, body.len());
}

#[test]
fn a_document_that_was_cut_has_no_event() {
    let scan = document(r#"{"choices":[{"message":{"content":"Hi, this is all there"#);
    assert_eq!((scan.kinds(), scan.ending), (vec![], Open));
    assert!(scan.output_tokens_seen > 0, "what was passed on counts");
}

#[test]
fn a_document_without_content_is_an_end() {
    let filtered = r#"{"choices":[{"finish_reason":"content_filter"}],"usage":{"prompt_tokens":7,"completion_tokens":0}}"#;
    let scan = document(filtered);
    assert_eq!((scan.kinds(), scan.ending), (vec![Terminal], Incomplete));
    assert_eq!(document("{}").kinds(), [Terminal]);
}

#[test]
fn an_error_document_in_a_200_is_an_error() {
    for body in [
        r#"{"error":{"code":429,"message":"slow"}}"#,
        r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]"#,
        r#"{"choices":[{"error":{"code":429,"message":"slow"},"finish_reason":"error"}]}"#,
        r#"{"object":"error","message":"slow","code":429}"#,
    ] {
        let scan = document(body);
        assert_eq!(class(&scan.kinds()[0]), Some(ErrorClass::RateLimit), "{body}");
        assert_eq!(scan.ending, Ending::Error);
    }
    assert_eq!(
        class(&document("{broken}").kinds()[0]),
        Some(ErrorClass::ServerError)
    );
}

#[test]
fn a_document_that_is_too_long_passes_unread() {
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"{}"}}}}]}}"#,
        "a".repeat(9 << 20)
    );
    let scan = document(&body);
    assert_eq!(
        (scan.kinds(), scan.ending, scan.usage),
        (vec![Content], Complete, None)
    );
}

#[test]
fn an_answer_of_several_choices_is_open_until_each_that_went_on_is_finished() {
    let delta = |index: u8| format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"a"}}}}]}}"#);
    let finish = |index: u8, reason: &str| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
    };
    let ending = |events: &[String]| chunks(events.iter().map(String::as_str)).ending;
    let mut events = vec![delta(0), delta(1), finish(0, "length"), delta(1)];
    assert_eq!(ending(&events), Ending::Open, "a cut here is no clean end");
    events.push(finish(1, "stop"));
    assert_eq!(ending(&events), Ending::Incomplete);
    events.push(delta(0)); // what some servers send after the finish reason
    assert_eq!(ending(&events), Ending::Incomplete);
}
