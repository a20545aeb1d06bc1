//! One incremental scanner for answers.

use crate::{Framing, WireError};
use tower_ai_core::{Operation, TokenCounts};

/// Longest event that is read; a longer one passes unread.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// Reads an answer as it passes, at any split of its bytes, and keeps at most one partial event.
pub struct Scanner {
    _todo: (Operation, Framing),
}

/// One event of an answer, reported when its last byte was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What it is.
    pub kind: EventKind,
    /// Offset in the pushed bytes right after this event, the blank line that ends it included.
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
    /// The start of an answer, without content: may still be held back.
    Prelude,
    /// Model output.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its terminal marker came.
    Complete,
    /// Its terminal marker came and says that output is missing (length, refusal, filter); billed all the same.
    Incomplete,
    /// An error event came.
    Error,
    /// No terminal marker so far.
    Open,
}

impl Scanner {
    /// A scanner for the answer to this operation.
    pub fn new(operation: Operation, framing: Framing) -> Self {
        Self {
            _todo: (operation, framing),
        }
    }

    /// Reads on; `on_event` is told each event that became complete. `Framing::Json` has one event, reported when the
    /// document's last byte was pushed.
    pub fn push(&mut self, _bytes: &[u8], _on_event: impl FnMut(Event)) {
        todo!()
    }

    /// The body is over: what is left is read as an event too (some servers end with an unterminated one). Its `end` is 0.
    pub fn finish(&mut self, _on_event: impl FnMut(Event)) {
        todo!()
    }

    /// Usage told so far, in normal form; running totals replace, they never add.
    pub fn usage(&self) -> Option<&TokenCounts> {
        todo!()
    }

    /// Whether the usage is the final one: it came with, or after, the end that this dialect reports it at.
    pub fn usage_is_final(&self) -> bool {
        todo!()
    }

    /// Output tokens in the content so far by our own count (bytes / 4, at least one for each content event).
    pub fn output_tokens_seen(&self) -> u64 {
        todo!()
    }

    /// How the answer ended, as far as was seen.
    pub fn ending(&self) -> Ending {
        todo!()
    }

    /// The model that the answer names.
    pub fn model(&self) -> Option<&str> {
        todo!()
    }

    /// The service tier that the answer names: the one that is billed.
    pub fn service_tier(&self) -> Option<&str> {
        todo!()
    }

    /// Bytes of the event that is not complete yet.
    pub fn partial_len(&self) -> usize {
        todo!()
    }
}
