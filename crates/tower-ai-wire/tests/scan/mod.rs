//! Scans an answer, cut as a test likes it.

use tower_ai_core::{Operation, TokenCounts};
use tower_ai_wire::{Ending, EventKind, Framing, Scanner, UsageMember};

/// What a scanner told of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scan {
    /// Each event: where it ends in the whole answer, what it is, what it says about usage.
    pub(crate) events: Vec<(usize, EventKind, UsageMember)>,
    pub(crate) usage: Option<TokenCounts>,
    pub(crate) usage_is_final: bool,
    pub(crate) ending: Ending,
    pub(crate) model: Option<String>,
    pub(crate) service_tier: Option<String>,
    pub(crate) output_tokens_seen: u64,
}

impl Scan {
    /// Scans an answer that comes in these pieces.
    pub(crate) fn of<'a>(
        operation: Operation,
        framing: Framing,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut scanner = Scanner::new(operation, framing);
        let mut events = Vec::new();
        let mut passed = 0;
        for piece in pieces {
            scanner.push(piece, |event| {
                assert!(event.end <= piece.len(), "an event ends within what was pushed");
                events.push((passed + event.end, event.kind, event.usage));
            });
            passed += piece.len();
        }
        scanner.finish(|event| events.push((passed, event.kind, event.usage)));
        Self {
            events,
            usage: scanner.usage().copied(),
            usage_is_final: scanner.usage_is_final(),
            ending: scanner.ending(),
            model: scanner.model().map(Into::into),
            service_tier: scanner.service_tier().map(Into::into),
            output_tokens_seen: scanner.output_tokens_seen(),
        }
    }

    /// Scans a stream in one piece.
    #[allow(dead_code, reason = "not every test that scans streams one")]
    pub(crate) fn stream(operation: Operation, text: &str) -> Self {
        Self::of(operation, Framing::Sse, [text.as_bytes()])
    }

    /// Scans a document in one piece.
    #[allow(dead_code, reason = "not every test that scans reads a document")]
    pub(crate) fn document(operation: Operation, text: &str) -> Self {
        Self::of(operation, Framing::Json, [text.as_bytes()])
    }

    /// What the events are.
    #[allow(dead_code, reason = "not every test that scans looks at them")]
    pub(crate) fn kinds(&self) -> Vec<EventKind> {
        self.events.iter().map(|(_, kind, _)| kind.clone()).collect()
    }

    /// What the events say about usage.
    #[allow(dead_code, reason = "not every test that scans looks at them")]
    pub(crate) fn usage_members(&self) -> Vec<UsageMember> {
        self.events.iter().map(|(_, _, usage)| *usage).collect()
    }
}
