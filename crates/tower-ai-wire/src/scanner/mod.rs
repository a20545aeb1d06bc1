//! One incremental scanner for answers.
//!
//! [`sse`] and [`json_doc`] find where events end; one file for each dialect says what an event means and keeps the
//! dialect's running totals. What every dialect finds out goes into [`Seen`].
//!
//! Reading costs little: line ends are found by memchr, in place. Until the first content each event is opened. After
//! it, an ordinary delta is only searched for the few members that would make it more than that, and opened when
//! one of them is there and not null.

mod anthropic;
mod glance;
mod json_doc;
mod openai;
pub(crate) mod sse;

use crate::{Framing, WireError, error, json::Object};
use json_doc::Collector;
use sse::{Fields, Splitter};
use std::fmt;
use tower_ai_core::{Dialect, Operation, TokenCounts};

pub use sse::MAX_EVENT_BYTES;

/// Reads an answer as it passes, at any split of its bytes, and keeps at most one partial event.
pub struct Scanner {
    frames: Frames,
    reader: Reader,
}

/// One event of an answer, reported when its last byte was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// Offset in the pushed bytes right after this event, the blank line that ends it included. Events follow each other
    /// without a gap: the next one starts here. It is 0 when the event turns out to have ended with the push before.
    pub end: usize,
    /// What it has to say about usage.
    pub usage: UsageMember,
}

/// What an event is to someone who waits for content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A comment or ping: the upstream lives.
    LifeSign,
    /// No content, no end, no error: mostly the start of an answer, which may still be held back.
    Prelude,
    /// Model output. May tell a finish reason too: [`Scanner::ending`] knows.
    Content,
    /// The answer is over, or its finish reason is told; nothing went wrong.
    Terminal,
    /// An error.
    Error(WireError),
}

/// What an event has to say about usage, for those who strip what was asked for on their own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageMember {
    /// No usage member.
    Absent,
    /// A usage member that is null.
    Null,
    /// Usage beside other content.
    Beside,
    /// Usage and nothing else (OpenAI's extra chunk with no choices).
    Alone,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its terminal marker came.
    Complete,
    /// Its terminal marker came and says that output is missing (length, refusal, filter); billed all the same.
    Incomplete,
    /// An error event came.
    Error,
    /// No terminal marker so far.
    #[default]
    Open,
}

enum Frames {
    Sse(Splitter),
    Json(Collector),
}

impl Scanner {
    /// A scanner for the answer to this operation.
    pub fn new(operation: Operation, framing: Framing) -> Self {
        Self {
            frames: match framing {
                Framing::Sse => Frames::Sse(Splitter::default()),
                Framing::Json => Frames::Json(Collector::default()),
            },
            reader: Reader::new(operation),
        }
    }

    /// Reads on; `on_event` is told each event that became complete. `Framing::Json` has one event, reported when the
    /// document's last byte was pushed, and a life sign for each blank line in front of it.
    pub fn push(&mut self, bytes: &[u8], mut on_event: impl FnMut(Event)) {
        let reader = &mut self.reader;
        match &mut self.frames {
            Frames::Sse(splitter) => splitter.push(bytes, |piece, end| on_event(reader.event(piece, end))),
            Frames::Json(collector) => {
                collector.push(bytes, |piece, end| on_event(reader.document(piece, end)))
            }
        }
    }

    /// The body is over: what is left is read as an event too (some servers end with an unterminated one), unless it was
    /// cut within. Its `end` is 0.
    pub fn finish(&mut self, mut on_event: impl FnMut(Event)) {
        if let Frames::Sse(splitter) = &mut self.frames
            && let Some(rest) = splitter.take_rest()
            && is_whole(&Fields::of(&rest))
        {
            on_event(self.reader.event(sse::Piece::Event(&rest), 0));
        }
    }

    /// Usage told so far, in normal form; running totals replace, they never add.
    pub fn usage(&self) -> Option<&TokenCounts> {
        self.reader.seen.usage.as_ref()
    }

    /// Whether the usage is the final one: it came with, or after, the end that this dialect reports it at.
    pub fn usage_is_final(&self) -> bool {
        self.reader.seen.usage_is_final
    }

    /// Output tokens in the content so far by our own count (bytes / 4, at least one for each content event).
    pub fn output_tokens_seen(&self) -> u64 {
        let unread = match &self.frames {
            Frames::Json(collector) => collector.partial_len() as u64,
            Frames::Sse(_) => 0,
        };
        let seen = &self.reader.seen;
        (seen.text_bytes + unread)
            .div_ceil(BYTES_PER_TOKEN)
            .max(seen.content_events)
    }

    /// How the answer ended, as far as was seen.
    pub fn ending(&self) -> Ending {
        self.reader.seen.ending
    }

    /// The model that the answer names.
    pub fn model(&self) -> Option<&str> {
        self.reader.seen.model.as_deref()
    }

    /// The service tier that the answer names: the one that is billed.
    pub fn service_tier(&self) -> Option<&str> {
        self.reader.seen.service_tier.as_deref()
    }

    /// Bytes of the event that is not complete yet.
    pub fn partial_len(&self) -> usize {
        match &self.frames {
            Frames::Sse(splitter) => splitter.partial_len(),
            Frames::Json(collector) => collector.partial_len(),
        }
    }
}

impl fmt::Debug for Scanner {
    /// Without what is kept of the answer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("dialect", &self.reader.dialect())
            .field("ending", &self.ending())
            .field("usage", &self.usage())
            .field("partial_len", &self.partial_len())
            .finish_non_exhaustive()
    }
}

/// Roughly, for prose.
const BYTES_PER_TOKEN: u64 = 4;

/// Whether what a stream ended with was not cut: its data is a marker or JSON to its last brace.
fn is_whole(fields: &Fields<'_>) -> bool {
    let Some(data) = fields.data.as_deref().map(<[u8]>::trim_ascii) else {
        return true;
    };
    data == DONE || (is_json(data) && Object::parse(&String::from_utf8_lossy(data)).is_ok())
}

fn is_json(data: &[u8]) -> bool {
    matches!(data.first(), Some(b'{' | b'['))
}

/// OpenAI's terminal marker.
const DONE: &[u8] = b"[DONE]";

/// What was found out about an answer.
#[derive(Debug, Default)]
struct Seen {
    usage: Option<TokenCounts>,
    usage_is_final: bool,
    ending: Ending,
    model: Option<String>,
    service_tier: Option<String>,
    /// Bytes of model output.
    text_bytes: u64,
    /// Events with model output.
    content_events: u64,
    /// Whether a web search was made that usage does not tell.
    has_untold_search: bool,
}

impl Seen {
    fn content(&mut self, bytes: u64) {
        self.content_events += 1;
        self.text_bytes = self.text_bytes.saturating_add(bytes);
    }

    /// An end never becomes a better one: a stream may close its choices one by one, and politely after an error.
    fn end(&mut self, ending: Ending) {
        let rank = |ending| match ending {
            Ending::Open => 0,
            Ending::Complete => 1,
            Ending::Incomplete => 2,
            Ending::Error => 3,
        };
        if rank(ending) > rank(self.ending) {
            self.ending = ending;
        }
    }

    fn usage(&mut self, mut counts: TokenCounts) {
        if self.has_untold_search {
            counts.web_searches = counts.web_searches.max(1);
        }
        self.usage = Some(counts);
        self.usage_is_final = self.ending != Ending::Open;
    }

    fn inferred_search(&mut self) {
        self.has_untold_search = true;
        if let Some(counts) = &mut self.usage {
            counts.web_searches = counts.web_searches.max(1);
        }
    }

    fn name_model(&mut self, answer: &Object<'_>) {
        if self.model.is_none() {
            self.model = answer.string("model").map(Into::into);
        }
    }

    fn name_tier(&mut self, holder: &Object<'_>) {
        if let Some(tier) = holder.string("service_tier") {
            self.service_tier = Some(tier.into());
        }
    }
}

/// What a dialect makes of one event.
type Reading = (EventKind, UsageMember);

/// Says what events mean.
struct Reader {
    speaks: Speaks,
    seen: Seen,
}

#[expect(
    clippy::large_enum_variant,
    reason = "one for each answer: a box would cost more than the bytes"
)]
enum Speaks {
    OpenAi,
    Anthropic(anthropic::Totals),
}

impl Reader {
    fn new(operation: Operation) -> Self {
        Self {
            speaks: match operation.dialect() {
                Dialect::Anthropic => Speaks::Anthropic(anthropic::Totals::default()),
                _ => Speaks::OpenAi,
            },
            seen: Seen::default(),
        }
    }

    fn dialect(&self) -> Dialect {
        match self.speaks {
            Speaks::OpenAi => Dialect::OpenAi,
            Speaks::Anthropic(_) => Dialect::Anthropic,
        }
    }

    fn event(&mut self, piece: sse::Piece<'_>, end: usize) -> Event {
        let (kind, usage) = match piece {
            sse::Piece::Event(event) => self.fields(&Fields::of(event)),
            sse::Piece::TooLong(len) => self.unread(len),
        };
        Event { kind, end, usage }
    }

    fn document(&mut self, piece: json_doc::Piece<'_>, end: usize) -> Event {
        let (kind, usage) = match piece {
            json_doc::Piece::BlankLine => (EventKind::LifeSign, UsageMember::Absent),
            json_doc::Piece::Document(bytes) => self.answer(bytes),
            json_doc::Piece::TooLong(len) => {
                self.seen.end(Ending::Complete);
                self.unread(len)
            }
        };
        Event { kind, end, usage }
    }

    fn unread(&mut self, len: usize) -> Reading {
        self.seen.content(len as u64);
        (EventKind::Content, UsageMember::Absent)
    }

    fn fields(&mut self, fields: &Fields<'_>) -> Reading {
        let data = fields.data.as_deref().unwrap_or_default().trim_ascii();
        if data == DONE {
            self.seen.end(Ending::Complete);
            // Nothing newer came: the last of the running totals is the final one.
            self.seen.usage_is_final |= self.dialect() == Dialect::OpenAi && self.seen.usage.is_some();
            return (EventKind::Terminal, UsageMember::Absent);
        }
        if fields.in_error_field || (fields.name == Some(b"error") && !data.is_empty()) {
            return self.error(data, UsageMember::Absent);
        }
        if !is_json(data) {
            return (EventKind::LifeSign, UsageMember::Absent);
        }
        self.chunk(&String::from_utf8_lossy(data))
    }

    fn chunk(&mut self, data: &str) -> Reading {
        if self.seen.content_events > 0
            && self.seen.ending == Ending::Open
            && let Some(reading) = self.plain_delta(data)
        {
            return reading;
        }
        let Ok(chunk) = Object::parse(data) else {
            return self.not_json(data);
        };
        if error::is_error(&chunk) {
            let usage = self.usage_beside_error(&chunk);
            return self.error(data.as_bytes(), usage);
        }
        match &mut self.speaks {
            Speaks::OpenAi => openai::chunk(&chunk, &mut self.seen)
                .unwrap_or_else(|| self.error(data.as_bytes(), UsageMember::Beside)),
            Speaks::Anthropic(totals) => totals.event(&chunk, &mut self.seen),
        }
    }

    fn plain_delta(&mut self, data: &str) -> Option<Reading> {
        match self.speaks {
            Speaks::OpenAi => openai::plain_delta(data, &mut self.seen),
            Speaks::Anthropic(_) => anthropic::plain_delta(data, &mut self.seen),
        }
    }

    fn answer(&mut self, document: &[u8]) -> Reading {
        let text = String::from_utf8_lossy(document);
        let Ok(answer) = Object::parse(&text) else {
            // An array is an error of Google's; anything else is broken, which is an error too.
            return self.error(document, UsageMember::Absent);
        };
        if error::is_error(&answer) {
            let usage = self.usage_beside_error(&answer);
            return self.error(document, usage);
        }
        match &mut self.speaks {
            Speaks::OpenAi => openai::answer(&answer, &mut self.seen)
                .unwrap_or_else(|| self.error(document, UsageMember::Beside)),
            Speaks::Anthropic(totals) => totals.answer(&answer, &mut self.seen),
        }
    }

    /// A client cannot read it either. Before the first content another upstream may do better; after it, it passes.
    fn not_json(&mut self, data: &str) -> Reading {
        if self.seen.content_events > 0 {
            return self.unread(data.len());
        }
        self.error(b"", UsageMember::Absent)
    }

    fn error(&mut self, body: &[u8], usage: UsageMember) -> Reading {
        self.seen.end(Ending::Error);
        (EventKind::Error(error::within_answer(body)), usage)
    }

    fn usage_beside_error(&mut self, chunk: &Object<'_>) -> UsageMember {
        self.seen.end(Ending::Error);
        self.seen.name_model(chunk);
        match self.speaks {
            Speaks::OpenAi => openai::take_usage(chunk, &mut self.seen),
            Speaks::Anthropic(_) => UsageMember::Absent,
        }
    }
}
