//! What the dialects share: what was found out so far, and which of them reads.

use super::{Ending, Event, EventKind, UsageMember, anthropic, json_doc, openai, sse};
use crate::{error, json::Object};
use sse::Fields;
use tower_ai_core::{Dialect, Operation, TokenCounts};

/// What was found out about an answer.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) usage: Option<TokenCounts>,
    pub(super) usage_is_final: bool,
    pub(super) ending: Ending,
    pub(super) model: Option<String>,
    pub(super) service_tier: Option<String>,
    /// Bytes of model output.
    pub(super) text_bytes: u64,
    /// Events with model output.
    pub(super) content_events: u64,
    /// Whether a web search was made that usage does not tell.
    has_untold_search: bool,
    /// Choices that told their finish reason.
    pub(super) finished: Choices,
    /// The worst of all ends told.
    worst: Ending,
}

/// A set of choices by index, in bounded memory: the last bit stands for all beyond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choices(u64);

impl Choices {
    pub(super) fn insert(&mut self, index: u64) {
        self.0 |= 1 << index.min(63);
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl Seen {
    pub(super) fn content(&mut self, bytes: u64) {
        self.content_events += 1;
        self.text_bytes = self.text_bytes.saturating_add(bytes);
    }

    /// An end never becomes a better one: a stream may close its choices one by one, and politely after an error.
    pub(super) fn end(&mut self, ending: Ending) {
        self.worst = self.worst.worse(ending);
        self.ending = self.worst;
    }

    /// An end that was told is not that of the whole answer.
    pub(super) fn reopen(&mut self) {
        if self.ending != Ending::Error {
            self.ending = Ending::Open;
        }
    }

    pub(super) fn tell_usage(&mut self, mut counts: TokenCounts) {
        if self.has_untold_search {
            counts.web_searches = counts.web_searches.max(1);
        }
        self.usage = Some(counts);
        self.usage_is_final = self.ending != Ending::Open;
    }

    pub(super) fn infer_search(&mut self) {
        self.has_untold_search = true;
        if let Some(counts) = &mut self.usage {
            counts.web_searches = counts.web_searches.max(1);
        }
    }

    pub(super) fn name_model(&mut self, answer: &Object<'_>) {
        if self.model.is_none() {
            self.model = answer.string("model").map(Into::into);
        }
    }

    pub(super) fn name_tier(&mut self, holder: &Object<'_>) {
        if let Some(tier) = holder.string("service_tier") {
            self.service_tier = Some(tier.into());
        }
    }
}

/// What a dialect makes of one event.
pub(super) type Reading = (EventKind, UsageMember);

/// Says what events mean.
pub(super) struct Reader {
    speaks: Speaks,
    pub(super) seen: Seen,
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
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            speaks: match operation.dialect() {
                Dialect::Anthropic => Speaks::Anthropic(anthropic::Totals::default()),
                _ => Speaks::OpenAi,
            },
            seen: Seen::default(),
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self.speaks {
            Speaks::OpenAi => Dialect::OpenAi,
            Speaks::Anthropic(_) => Dialect::Anthropic,
        }
    }

    pub(super) fn event(&mut self, piece: sse::Piece<'_>, end: usize) -> Event {
        let (kind, usage) = match piece {
            sse::Piece::Event(event) => self.fields(&Fields::of(event)),
            sse::Piece::TooLong(len) => self.unread(len),
        };
        Event { kind, end, usage }
    }

    pub(super) fn document(&mut self, piece: json_doc::Piece<'_>, end: usize) -> Event {
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

    /// What a stream ended with, unless it was cut within.
    pub(super) fn rest(&mut self, rest: &[u8]) -> Option<Event> {
        is_whole(&Fields::of(rest)).then(|| self.event(sse::Piece::Event(rest), 0))
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
                .unwrap_or_else(|failed| self.error(data.as_bytes(), failed.usage)),
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
                .unwrap_or_else(|failed| self.error(document, failed.usage)),
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
