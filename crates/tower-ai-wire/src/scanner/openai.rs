//! OpenAI chat completions, and the compatible crowd.
//!
//! Usage is inclusive already: cached, written, audio and image tokens are subsets of `prompt_tokens`, reasoning is one of
//! `completion_tokens`; except at xAI, whose reasoning comes on top, as its `total_tokens` shows. The last usage that is
//! not null counts: a chunk without may follow it, and servers that tell it in each chunk tell running totals.

use super::{
    Ending, EventKind, UsageMember,
    glance::{Look, look, values_of},
    reader::{Choices, Reading, Seen},
};
use crate::json::{Object, Value};
use memchr::memmem::Finder;
use std::sync::LazyLock;
use tower_ai_core::TokenCounts;

/// Reads an ordinary delta without opening what is around it. `None` when the chunk may be more than that.
pub(super) fn plain_delta(data: &str, seen: &mut Seen) -> Option<Reading> {
    static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""usage""#));
    static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""error""#));
    static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""finish_reason""#));
    static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""delta""#));
    let usage = match look(data, &USAGE) {
        Look::Absent => UsageMember::Absent,
        Look::Null => UsageMember::Null,
        Look::Value => return None,
    };
    if look(data, &FINISH) == Look::Value || look(data, &ERROR) == Look::Value {
        return None;
    }
    let mut output = Output::default();
    for delta in values_of(data, &DELTA) {
        output.add_delta(&delta.object()?);
    }
    output.some.then(|| (output.kind(seen), usage))
}

/// One of the choices of a chunk failed.
#[derive(Debug)]
pub(super) struct ChoiceFailed {
    /// What the chunk says about usage all the same.
    pub(super) usage: UsageMember,
}

/// Reads a chunk of a stream.
pub(super) fn chunk(chunk: &Object<'_>, seen: &mut Seen) -> Result<Reading, ChoiceFailed> {
    seen.name_model(chunk);
    seen.name_tier(chunk);
    let mut output = Output::default();
    let mut goes_on = Choices::default();
    for choice in chunk.elements("choices").into_iter().filter_map(Value::object) {
        let index = choice.count("index").unwrap_or(0);
        match output.add_choice(&choice) {
            Progress::Finished => seen.finished.insert(index),
            Progress::GoesOn => goes_on.insert(index),
            Progress::Nothing => {}
        }
    }
    if let Some(ending) = output.ending {
        seen.end(ending);
    }
    if !goes_on.is_within(seen.finished) {
        seen.reopen(); // the finish reason so far was that of another choice
    }
    let usage = take_usage(chunk, seen);
    if output.ending == Some(Ending::Error) {
        return Err(ChoiceFailed { usage });
    }
    if output.is_annotated && is_search_model(seen) {
        seen.infer_search();
    }
    Ok((output.kind(seen), usage))
}

/// Reads the document of an answer that is not streamed.
pub(super) fn answer(answer: &Object<'_>, seen: &mut Seen) -> Result<Reading, ChoiceFailed> {
    let (kind, usage) = chunk(answer, seen)?;
    // The document is whole, whatever its choices say.
    seen.end(Ending::Complete);
    seen.usage_is_final = seen.usage.is_some();
    match kind {
        EventKind::Prelude => Ok((EventKind::Terminal, usage)),
        kind => Ok((kind, usage)),
    }
}

/// What a chunk says of one choice.
enum Progress {
    Nothing,
    /// Output, and no finish reason.
    GoesOn,
    Finished,
}

/// Model output in the choices of a chunk.
#[derive(Debug, Default)]
struct Output {
    some: bool,
    bytes: u64,
    ending: Option<Ending>,
    is_annotated: bool,
}

impl Output {
    fn add_choice(&mut self, choice: &Object<'_>) -> Progress {
        let before = self.bytes;
        if choice.get("error").is_some() {
            self.end(Ending::Error);
        }
        if let Some(text) = choice.get("text") {
            self.add_text(text);
        }
        // Perplexity sends all of the message so far beside each delta.
        if let Some(delta) = choice.object("delta").or_else(|| choice.object("message")) {
            self.add_delta(&delta);
        }
        match choice.string("finish_reason").as_deref() {
            Some("error") => self.end(Ending::Error),
            Some(reason) => self.end(if is_incomplete(reason) {
                Ending::Incomplete
            } else {
                Ending::Complete
            }),
            None if self.bytes > before => return Progress::GoesOn,
            None => return Progress::Nothing,
        }
        Progress::Finished
    }

    fn add_delta(&mut self, delta: &Object<'_>) {
        for name in ["content", "reasoning", "reasoning_content", "refusal"] {
            if let Some(text) = delta.get(name) {
                self.add_text(text);
            }
        }
        self.is_annotated |= delta.get("annotations").is_some_and(|notes| !notes.is_empty());
        // Whatever they hold, they are something the client acts on.
        for name in ["tool_calls", "function_call", "audio", "images"] {
            if let Some(value) = delta.get(name).filter(|value| !value.is_empty()) {
                self.some = true;
                self.bytes += value.raw().len() as u64;
            }
        }
    }

    /// A string, or a list of parts (Mistral), each with strings of its own.
    fn add_text(&mut self, text: Value<'_>) {
        let bytes = if text.is_string() {
            text.text_len()
        } else {
            text.elements().into_iter().map(part_len).sum()
        };
        self.bytes += bytes;
        self.some |= bytes > 0;
    }

    /// The worst end of all choices is the chunk's.
    fn end(&mut self, ending: Ending) {
        self.ending = Some(self.ending.map_or(ending, |other| other.worse(ending)));
    }

    fn kind(&self, seen: &mut Seen) -> EventKind {
        if self.some {
            seen.content(self.bytes);
            EventKind::Content
        } else if self.ending.is_some() {
            EventKind::Terminal
        } else {
            EventKind::Prelude
        }
    }
}

fn part_len(part: Value<'_>) -> u64 {
    if part.is_string() {
        return part.text_len();
    }
    let Some(part) = part.object() else { return 0 };
    let text = part.get("text").map_or(0, Value::text_len);
    // A thinking part holds a list of text parts.
    let thinking = part.elements("thinking").into_iter();
    text + thinking
        .filter_map(|part| part.object()?.get("text"))
        .map(Value::text_len)
        .sum::<u64>()
}

/// Whether a finish reason says that output is missing. What no provider lists as such is a normal end.
fn is_incomplete(reason: &str) -> bool {
    const INCOMPLETE: &[&str] = &[
        "length",
        "content_filter",
        "max_tokens",
        "model_length",
        "insufficient_system_resource",
    ];
    INCOMPLETE.contains(&reason)
}

/// Whether the model searches the web for each call. Its usage leaves the search out; the annotations tell of it.
fn is_search_model(seen: &Seen) -> bool {
    let names = ["search-preview", "search-api"];
    seen.model
        .as_deref()
        .is_some_and(|model| names.iter().any(|name| model.contains(name)))
}

/// Takes the usage of a chunk.
pub(super) fn take_usage(chunk: &Object<'_>, seen: &mut Seen) -> UsageMember {
    let usage = chunk.object("usage");
    let groq = || chunk.object("x_groq")?.object("usage");
    let member = match (chunk.last("usage"), &usage) {
        (None, _) => UsageMember::Absent,
        (Some(_), None) => UsageMember::Null,
        (Some(_), Some(_)) if is_alone(chunk) => UsageMember::Alone,
        (Some(_), Some(_)) => UsageMember::Beside,
    };
    let counts = usage
        .or_else(groq)
        .and_then(|usage| counts(&usage))
        .or_else(|| timings(&chunk.object("timings")?));
    if let Some(counts) = counts {
        seen.tell_usage(counts);
        // The extra chunk comes last even where no finish reason is ever told.
        seen.usage_is_final |= member == UsageMember::Alone;
    }
    member
}

/// Whether a chunk with usage has nothing else that a client reads.
fn is_alone(chunk: &Object<'_>) -> bool {
    const CONTENT: &[&str] = &["prompt_filter_results", "moderation", "error"];
    chunk.elements("choices").is_empty() && CONTENT.iter().all(|name| chunk.get(name).is_none())
}

fn counts(usage: &Object<'_>) -> Option<TokenCounts> {
    let hit = usage.count("prompt_cache_hit_tokens");
    let miss = usage.count("prompt_cache_miss_tokens");
    let prompt = usage
        .count("prompt_tokens")
        .or_else(|| Some(hit?.saturating_add(miss?)));
    let completion = usage.count("completion_tokens");
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    let prompt_detail = detail(usage, "prompt_tokens_details");
    let completion_detail = detail(usage, "completion_tokens_details");

    let mut counts = TokenCounts::new(prompt.unwrap_or(0), completion.unwrap_or(0));
    counts.cached_read = prompt_detail("cached_tokens")
        .or(hit)
        .or_else(|| usage.count("cached_tokens"))
        .unwrap_or(0);
    counts.cache_write_other = prompt_detail("cache_write_tokens").unwrap_or(0);
    counts.audio_in = prompt_detail("audio_tokens").unwrap_or(0);
    counts.image_in = prompt_detail("image_tokens").unwrap_or(0);
    counts.reasoning = completion_detail("reasoning_tokens").unwrap_or(0);
    counts.audio_out = completion_detail("audio_tokens").unwrap_or(0);
    counts.image_out = completion_detail("image_tokens").unwrap_or(0);
    counts.web_searches = usage
        .object("server_tool_use_details")
        .or_else(|| usage.object("server_tool_use"))
        .and_then(|tools| tools.count("web_search_requests"))
        .unwrap_or(0);

    // xAI: the total tells that reasoning is not in the completion.
    let beyond = usage
        .count("total_tokens")
        .and_then(|total| total.checked_sub(counts.total()));
    if counts.reasoning > 0 && beyond == Some(counts.reasoning) {
        counts.output = counts.output.saturating_add(counts.reasoning);
    }
    Some(counts)
}

fn detail<'a>(usage: &Object<'a>, name: &str) -> impl Fn(&str) -> Option<u64> + use<'a> {
    let details = usage.object(name);
    move |name| details.as_ref()?.count(name)
}

/// llama.cpp without usage: what it timed.
fn timings(timings: &Object<'_>) -> Option<TokenCounts> {
    let cached = timings.count("cache_n").unwrap_or(0);
    let mut counts = TokenCounts::new(
        cached.saturating_add(timings.count("prompt_n")?),
        timings.count("predicted_n")?,
    );
    counts.cached_read = cached;
    Some(counts)
}
