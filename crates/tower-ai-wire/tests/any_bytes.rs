//! Whatever comes, and however it is cut.

mod scan;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::{collection::vec, prelude::*, sample::select};
use scan::Scan;
use tower_ai_core::Operation;
use tower_ai_wire::{Framing, classify, read_request, retry_hint, splice};

/// Parts of streams of both dialects, whole and broken; what is no event by itself joins the next.
const PARTS: &[&str] = &[
    "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hé \\\"llo\\\\ \"},\"finish_reason\":null}],\"usage\":null}",
    "data:{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}",
    "data: {\"error\":{\"code\":429,\"message\":\"try again in 2s\"}}",
    "data: [DONE]",
    "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}",
    "event: content_block_delta",
    "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}",
    "data: {\"type\":\"message_stop\"}",
    "data: {\"choices\":[{\"delta\":",
    ": OPENROUTER PROCESSING",
    "data: : keepalive",
    "event: error",
    "error: {\"message\":\"gone\"}",
    "{\"error\":{\"message\":\"gone\"}}",
    "\u{feff}",
    "",
];

const LINE_ENDS: &[&str] = &["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\r\r", "\n\r\n", ""];

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let lines = vec((select(PARTS), select(LINE_ENDS)), 0..24);
    lines.prop_map(|lines| {
        lines
            .into_iter()
            .flat_map(|(part, end)| [part, end])
            .collect::<String>()
            .into_bytes()
    })
}

fn documents() -> impl Strategy<Value = Vec<u8>> {
    let text = "[\\n \\r]{0,4}\\{\"(model|usage|error)\":(\"[a{}\\[\\]\u{e9}]{0,9}(\\\\\")?\"|\\[\\{\\}\\]|\\{\\}|3)\\}?[\\n ]?";
    text.prop_map(String::into_bytes)
}

fn operations() -> impl Strategy<Value = Operation> {
    select(&[Operation::ChatCompletions, Operation::Messages][..])
}

fn framings() -> impl Strategy<Value = Framing> {
    select(&[Framing::Sse, Framing::Json][..])
}

/// The pieces between these cuts.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_split_of_a_stream_tells_the_same(
        operation in operations(),
        bytes in streams(),
        cuts in vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let whole = Scan::of(operation, Framing::Sse, [bytes.as_slice()]);
        prop_assert_eq!(&Scan::of(operation, Framing::Sse, pieces(&bytes, &cuts)), &whole);
        prop_assert_eq!(&Scan::of(operation, Framing::Sse, bytes.chunks(1)), &whole);
    }

    #[test]
    fn any_split_of_a_document_tells_the_same(
        operation in operations(),
        bytes in documents(),
        cuts in vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let whole = Scan::of(operation, Framing::Json, [bytes.as_slice()]);
        prop_assert_eq!(&Scan::of(operation, Framing::Json, pieces(&bytes, &cuts)), &whole);
        prop_assert_eq!(&Scan::of(operation, Framing::Json, bytes.chunks(1)), &whole);
    }

    #[test]
    fn events_tile_the_stream(operation in operations(), bytes in streams()) {
        let ends: Vec<_> = Scan::of(operation, Framing::Sse, [bytes.as_slice()]).events.into_iter().map(|(end, ..)| end).collect();
        prop_assert!(ends.is_sorted(), "{ends:?}");
    }

    #[test]
    fn no_bytes_make_a_scanner_panic(
        operation in operations(),
        framing in framings(),
        bytes in vec(any::<u8>(), 0..300),
        start in streams(),
    ) {
        Scan::of(operation, framing, [start.as_slice(), &bytes]);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        operation in operations(),
        status in 100_u16..1000,
        name in select(&["retry-after", "retry-after-ms", "date", "x-ratelimit-reset-tokens", "ratelimit", "x-amzn-errortype"][..]),
        value in vec(32_u8..127, 0..30),
        body in prop_oneof![vec(any::<u8>(), 0..200), documents(), streams()],
    ) {
        let value = HeaderValue::from_bytes(&value).expect("visible characters");
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
        let status = StatusCode::from_u16(status).expect("three digits");
        classify(status, &headers, &body);
        retry_hint(status, &headers, &body);
        splice::without_usage(&body);
        let _ = read_request(operation, &body);
        let body = body.into();
        splice::ask_for_usage(operation, &body);
        splice::with_model(operation, &body, "m");
    }
}
