//! Changes of a request body by bytes: everything that is not meant stays as it was, white space and order too.
//!
//! Each function takes a body that [`read_request`](crate::read_request) accepted, and returns it unchanged (the same
//! bytes, not copied) when there is nothing to change.
//!
//! Of duplicate members each one is changed: an upstream that obeys the first must not see what we took out of the last.

use crate::{
    json::{Member, Object, quoted},
    scanner::sse::DataLines,
};
use bytes::Bytes;
use std::ops::Range;
use tower_ai_core::{Dialect, Operation};

/// Asks for usage in the stream: sets `stream_options.include_usage`, keeping other members of `stream_options`.
/// Unchanged when the answer is not asked for as a stream (the option is an error then), and for dialects that send
/// usage unasked.
pub fn ask_for_usage(operation: Operation, body: &Bytes) -> Bytes {
    if operation.dialect() != Dialect::OpenAi {
        return body.clone();
    }
    changed(body, |text, request| {
        if request.get("stream").and_then(|stream| stream.bool()) != Some(true) {
            return Vec::new();
        }
        let options: Vec<_> = named(request, "stream_options").collect();
        if options.is_empty() {
            return vec![insert_first(
                text,
                request,
                r#""stream_options":{"include_usage":true}"#,
            )];
        }
        let edits = options.into_iter().flat_map(|member| ask_in(text, member));
        edits.collect()
    })
}

/// Names another model: the upstream's own name for it.
pub fn with_model(_operation: Operation, body: &Bytes, model: &str) -> Bytes {
    let quoted = quoted(model);
    changed(body, |text, request| {
        named(request, "model")
            .filter(|member| member.value.raw() != quoted)
            .map(|member| Edit::replace(member.value_span(text), quoted.clone()))
            .collect()
    })
}

/// Takes `usage` out of one event: `"usage":null` members, or the usage object that was not asked for. The event's
/// other bytes, line ends and spacing too, stay as they were.
pub fn without_usage(event: &[u8]) -> Bytes {
    let lines = DataLines::of(event);
    let data = lines.data();
    let Ok(text) = str::from_utf8(&data) else {
        return Bytes::copy_from_slice(event);
    };
    let Ok(chunk) = Object::parse(text) else {
        return Bytes::copy_from_slice(event);
    };
    let mut kept = event.to_vec();
    for range in removals(text, &chunk).into_iter().rev() {
        // From the back, so that the offsets in front stay right.
        for range in lines.in_event(range).into_iter().rev() {
            kept.drain(range);
        }
    }
    kept.into()
}

/// The ranges of `text` without which the object has no `usage`, in order.
fn removals(text: &str, chunk: &Object<'_>) -> Vec<Range<usize>> {
    let spans: Vec<_> = chunk.members().iter().map(|member| member.span(text)).collect();
    let is_usage = |i: usize| chunk.members()[i].is("usage");
    let first_kept = (0..spans.len()).find(|i| !is_usage(*i));
    (0..spans.len())
        .filter(|i| is_usage(*i))
        .map(|i| {
            // The comma goes with it: the one in front of it, or, where no member in front stays, the one behind.
            if first_kept.is_some_and(|kept| kept < i) {
                spans[i - 1].end..spans[i].end
            } else {
                spans[i].start..spans.get(i + 1).map_or(spans[i].end, |next| next.start)
            }
        })
        .collect()
}

fn ask_in(text: &str, stream_options: &Member<'_>) -> Vec<Edit> {
    if stream_options.value.is_null() {
        let options = r#"{"include_usage":true}"#.to_owned();
        return vec![Edit::replace(stream_options.value_span(text), options)];
    }
    // Anything else that is no object is for the upstream to refuse.
    let Some(options) = stream_options.value.object() else {
        return Vec::new();
    };
    let asked: Vec<_> = named(&options, "include_usage").collect();
    if asked.is_empty() {
        let start = stream_options.value_span(text).start;
        return vec![insert_after_brace(start, &options, r#""include_usage":true"#)];
    }
    asked
        .into_iter()
        .filter(|member| member.value.bool() != Some(true))
        .map(|member| Edit::replace(member.value_span(text), "true".to_owned()))
        .collect()
}

fn named<'o, 'a>(object: &'o Object<'a>, name: &'o str) -> impl Iterator<Item = &'o Member<'a>> {
    object.members().iter().filter(move |member| member.is(name))
}

fn insert_first(text: &str, object: &Object<'_>, member: &str) -> Edit {
    insert_after_brace(text.len() - text.trim_start().len(), object, member)
}

fn insert_after_brace(brace: usize, object: &Object<'_>, member: &str) -> Edit {
    let comma = if object.members().is_empty() { "" } else { "," };
    Edit::replace(brace + 1..brace + 1, format!("{member}{comma}"))
}

/// A range of the body and what stands there instead.
#[derive(Debug)]
struct Edit {
    range: Range<usize>,
    text: String,
}

impl Edit {
    fn replace(range: Range<usize>, text: String) -> Self {
        Self { range, text }
    }
}

/// Applies edits, which are in the body's order; without any, the body itself.
fn changed(body: &Bytes, edits: impl FnOnce(&str, &Object<'_>) -> Vec<Edit>) -> Bytes {
    let Ok(text) = str::from_utf8(body) else {
        return body.clone();
    };
    let Ok(request) = Object::parse(text) else {
        return body.clone();
    };
    let edits = edits(text, &request);
    if edits.is_empty() {
        return body.clone();
    }
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut spliced = String::with_capacity(text.len() + added);
    let mut copied = 0;
    for edit in edits {
        spliced.push_str(&text[copied..edit.range.start]);
        spliced.push_str(&edit.text);
        copied = edit.range.end;
    }
    spliced.push_str(&text[copied..]);
    spliced.into()
}
