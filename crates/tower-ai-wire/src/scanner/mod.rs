//! One incremental scanner for answers.
//!
//! `sse` and `json_doc` find where events end; one file for each dialect says what an event means and keeps the
//! dialect's running totals; `reader` is what they share.
//!
//! Reading costs little: line ends are found by memchr, in place. Until the first content each event is opened. After
//! it, an ordinary delta is only searched for the few members that would make it more than that, and opened when
//! one of them is there and not null.

mod anthropic;
mod glance;
mod json_doc;
mod openai;
mod reader;
pub(crate) mod sse;

use crate::{Framing, WireError};
use json_doc::Collector;
use reader::Reader;
use sse::Splitter;
use std::fmt;
use tower_ai_core::{Operation, TokenCounts};

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

impl Ending {
    /// Of two ends the one that has more wrong with it; no end is the least.
    fn worse(self, other: Self) -> Self {
        let rank = |ending| match ending {
            Self::Open => 0,
            Self::Complete => 1,
            Self::Incomplete => 2,
            Self::Error => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
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
            && let Some(event) = self.reader.rest(&rest)
        {
            on_event(event);
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
