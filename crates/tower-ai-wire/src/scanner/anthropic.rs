//! Anthropic messages.
//!
//! `message_start` tells a first usage, each `message_delta` the totals so far: what it names replaces. Cache reads and
//! writes stand beside `input_tokens`, in normal form they are part of the input.

use super::{
    Ending, EventKind, UsageMember,
    glance::values_of,
    reader::{Reading, Seen},
};
use crate::json::{Object, Value};
use memchr::memmem::Finder;
use std::sync::LazyLock;
use tower_ai_core::TokenCounts;

/// Reads an ordinary delta without opening what is around it. `None` when the event may be more than that.
pub(super) fn plain_delta(data: &str, seen: &mut Seen) -> Option<Reading> {
    static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""delta""#));
    const START: &str = r#"{"type":"content_block_delta""#;
    if !data.starts_with(START) {
        return None;
    }
    let delta = values_of(data, &DELTA).next()?;
    Some((delta_kind(Some(delta), seen), UsageMember::Absent))
}

/// The running totals of one answer.
#[derive(Debug, Default)]
pub(super) struct Totals {
    input: Option<u64>,
    output: Option<u64>,
    cache: Cache,
    thinking: Option<u64>,
    web_searches: Option<u64>,
    /// The sum of `iterations`, which the counts beside it leave out in part.
    iterations: Option<TokenCounts>,
    /// Whether a `message_delta` told them: the start tells a first value of the output only.
    told_after_start: bool,
}

/// Tokens read from and written to the prompt cache.
#[derive(Clone, Copy, Debug, Default)]
struct Cache {
    read: Option<u64>,
    written: Option<u64>,
    split: Option<Split>,
}

/// How the written tokens split by lifetime. Told at the start only; the total grows.
#[derive(Clone, Copy, Debug)]
struct Split {
    five_minutes: u64,
    one_hour: u64,
}

impl Totals {
    /// Reads an event of a stream.
    pub(super) fn event(&mut self, event: &Object<'_>, seen: &mut Seen) -> Reading {
        match event.string("type").as_deref() {
            Some("ping") => (EventKind::LifeSign, UsageMember::Absent),
            Some("message_start") => (EventKind::Prelude, self.start(event, seen)),
            Some("content_block_start") => {
                (block_kind(event.get("content_block"), seen), UsageMember::Absent)
            }
            Some("content_block_delta") => (delta_kind(event.get("delta"), seen), UsageMember::Absent),
            Some("message_delta") => self.delta(event, seen),
            Some("message_stop") => {
                seen.end(Ending::Complete);
                seen.usage_is_final |= self.told_after_start;
                (EventKind::Terminal, UsageMember::Absent)
            }
            _ => (EventKind::Prelude, UsageMember::Absent),
        }
    }

    /// Reads the document of an answer that is not streamed.
    pub(super) fn answer(&mut self, answer: &Object<'_>, seen: &mut Seen) -> Reading {
        seen.name_model(answer);
        seen.end(
            answer
                .string("stop_reason")
                .map_or(Ending::Complete, |reason| ending(&reason)),
        );
        let usage = self.take_usage(answer, seen);
        let content = seen.content_events;
        for block in answer.elements("content") {
            block_kind(Some(block), seen);
        }
        let kind = if seen.content_events > content {
            EventKind::Content
        } else {
            EventKind::Terminal
        };
        (kind, usage)
    }

    /// An upstream proxy may retry and start again in mid-stream: the last start counts.
    fn start(&mut self, event: &Object<'_>, seen: &mut Seen) -> UsageMember {
        *self = Self::default();
        seen.usage = None;
        seen.usage_is_final = false;
        if seen.ending != Ending::Error {
            seen.ending = Ending::Open;
        }
        let Some(message) = event.object("message") else {
            return UsageMember::Absent;
        };
        seen.model = None;
        seen.name_model(&message);
        self.take_usage(&message, seen)
    }

    fn delta(&mut self, event: &Object<'_>, seen: &mut Seen) -> Reading {
        let reason = event
            .object("delta")
            .and_then(|delta| delta.string("stop_reason"));
        if let Some(reason) = &reason {
            seen.end(ending(reason));
        }
        let usage = self.take_usage(event, seen);
        self.told_after_start |= usage == UsageMember::Beside;
        let kind = if reason.is_some() {
            EventKind::Terminal
        } else {
            EventKind::Prelude
        };
        (kind, usage)
    }

    fn take_usage(&mut self, holder: &Object<'_>, seen: &mut Seen) -> UsageMember {
        let Some(usage) = holder.object("usage") else {
            return holder
                .last("usage")
                .map_or(UsageMember::Absent, |_| UsageMember::Null);
        };
        seen.name_tier(&usage);
        self.replace_by(&usage);
        if let Some(counts) = self.counts() {
            seen.tell_usage(counts);
        }
        UsageMember::Beside
    }

    fn replace_by(&mut self, usage: &Object<'_>) {
        self.input = usage.count("input_tokens").or(self.input);
        self.output = usage.count("output_tokens").or(self.output);
        self.cache.replace_by(usage);
        let detail = |holder: &str, name: &str| usage.object(holder)?.count(name);
        self.thinking = detail("output_tokens_details", "thinking_tokens").or(self.thinking);
        self.web_searches = detail("server_tool_use", "web_search_requests").or(self.web_searches);
        let iterations = usage.elements("iterations");
        if !iterations.is_empty() {
            let sum = iterations
                .into_iter()
                .filter_map(|iteration| self.iteration(iteration));
            self.iterations = Some(sum.fold(TokenCounts::default(), |sum, counts| sum.plus(&counts)));
        }
    }

    fn iteration(&self, iteration: Value<'_>) -> Option<TokenCounts> {
        let iteration = iteration.object()?;
        let mut cache = Cache {
            split: self.cache.split,
            ..Cache::default()
        };
        cache.replace_by(&iteration);
        Some(inclusive(
            iteration.count("input_tokens"),
            iteration.count("output_tokens"),
            cache,
        ))
    }

    fn counts(&self) -> Option<TokenCounts> {
        if self.input.is_none() && self.output.is_none() && self.iterations.is_none() {
            return None;
        }
        let own = || inclusive(self.input, self.output, self.cache);
        let mut counts = self.iterations.unwrap_or_else(own);
        counts.reasoning = self.thinking.unwrap_or(0);
        counts.web_searches = self.web_searches.unwrap_or(0);
        Some(counts)
    }
}

fn inclusive(input: Option<u64>, output: Option<u64>, cache: Cache) -> TokenCounts {
    let (read, written) = (cache.read.unwrap_or(0), cache.total_written());
    let input = input.unwrap_or(0).saturating_add(read).saturating_add(written);
    let mut counts = TokenCounts::new(input, output.unwrap_or(0));
    counts.cached_read = read;
    counts.cache_write_1h = cache.written_for_one_hour();
    counts.cache_write_5m = written - counts.cache_write_1h;
    counts
}

impl Cache {
    fn replace_by(&mut self, usage: &Object<'_>) {
        self.read = usage.count("cache_read_input_tokens").or(self.read);
        self.written = usage.count("cache_creation_input_tokens").or(self.written);
        if let Some(split) = usage.object("cache_creation") {
            self.split = Some(Split {
                five_minutes: split.count("ephemeral_5m_input_tokens").unwrap_or(0),
                one_hour: split.count("ephemeral_1h_input_tokens").unwrap_or(0),
            });
        }
    }

    fn total_written(&self) -> u64 {
        let of_split = |split: Split| split.five_minutes.saturating_add(split.one_hour);
        self.written.or(self.split.map(of_split)).unwrap_or(0)
    }

    /// The split is scaled to the total: what grew after it was told has the lifetimes that the request uses. Rounded
    /// towards the dearer one. Without a split it is the default lifetime, five minutes.
    fn written_for_one_hour(&self) -> u64 {
        let Some(split) = self.split.filter(|split| split.one_hour > 0) else {
            return 0;
        };
        let whole = u128::from(split.five_minutes) + u128::from(split.one_hour);
        let share = (u128::from(self.total_written()) * u128::from(split.one_hour)).div_ceil(whole);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

fn ending(stop_reason: &str) -> Ending {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" | "refusal" => Ending::Incomplete,
        _ => Ending::Complete,
    }
}

/// A block is content unless it only opens: text and thinking that are empty yet, a compaction that is still to come, a
/// note that another model takes over.
fn block_kind(block: Option<Value<'_>>, seen: &mut Seen) -> EventKind {
    let Some(block) = block.and_then(Value::object) else {
        return EventKind::Prelude;
    };
    let text = match block.string("type").as_deref() {
        Some("text") => block.get("text"),
        Some("thinking") => block.get("thinking"),
        Some("compaction") => block.get("content"),
        Some("fallback") | None => None,
        Some(_) => {
            seen.content(block.get("input").map_or(0, |input| input.raw().len() as u64));
            return EventKind::Content;
        }
    };
    text_kind(text.map_or(0, Value::text_len), seen)
}

fn delta_kind(delta: Option<Value<'_>>, seen: &mut Seen) -> EventKind {
    let Some(delta) = delta.and_then(Value::object) else {
        return EventKind::Prelude;
    };
    let names = ["text", "thinking", "partial_json", "signature", "content"];
    let bytes = names
        .iter()
        .filter_map(|name| delta.get(name))
        .map(Value::text_len)
        .sum();
    text_kind(bytes, seen)
}

fn text_kind(bytes: u64, seen: &mut Seen) -> EventKind {
    if bytes == 0 {
        return EventKind::Prelude;
    }
    seen.content(bytes);
    EventKind::Content
}
