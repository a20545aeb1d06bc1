//! What is read of an answer, and passed on: held back until its first content, then as it comes.

use crate::{
    classify::{self, Failure},
    events::{Events, First, StreamEnd},
};
use bytes::Bytes;
use http::{HeaderMap, response};
use http_body::Frame;
use std::collections::VecDeque;
use tower_ai_core::{Operation, Reason};
use tower_ai_wire::{EventKind, Framing, Scanner, WireError};

/// The most that is held of an event stream before its first content.
pub(crate) const HELD_STREAM_BYTES: usize = 64 * 1024;
/// The most events that are held of it.
pub(crate) const HELD_EVENTS: usize = 256;
/// The most that is held of a document.
pub(crate) const HELD_DOCUMENT_BYTES: usize = 256 * 1024;

/// An answer as it is read. What can be passed on waits in a queue.
#[derive(Debug)]
pub(crate) struct Answer {
    queue: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    kind: Kind,
    held: Held,
    /// An error event ended it, whatever the upstream still sends.
    is_over: bool,
}

#[derive(Debug)]
enum Kind {
    /// An event stream of a known operation.
    Events(Box<Events>),
    /// A document, of a known operation or not, that is not complete.
    Document(Option<Box<Scanner>>),
    /// Anything else, and documents once they are passed on.
    Opaque { is_ai: bool },
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    events: usize,
}

/// How it stands with an answer that is held back.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It has not begun.
    Hold,
    /// It has begun, or too much is held: what there is goes to the caller, and all that follows.
    Commit,
    /// Another candidate may do better.
    Fail(Failure),
}

impl Answer {
    pub(crate) fn new(head: &response::Parts, operation: Option<Operation>) -> Self {
        let kind = match (Framing::of(&head.headers), operation) {
            (Some(Framing::Sse), Some(operation)) => Kind::Events(Box::new(Events::new(operation))),
            (Some(Framing::Json), operation) => {
                Kind::Document(operation.map(|operation| Box::new(Scanner::new(operation, Framing::Json))))
            }
            (_, operation) => Kind::Opaque {
                is_ai: operation.is_some(),
            },
        };
        Self::of(kind)
    }

    /// An answer that passes whatever it is.
    pub(crate) fn passing() -> Self {
        Self::of(Kind::Opaque { is_ai: false })
    }

    fn of(kind: Kind) -> Self {
        Self {
            queue: VecDeque::new(),
            trailers: None,
            kind,
            held: Held::default(),
            is_over: false,
        }
    }

    // === before the commit ===

    /// Takes a frame of an answer that is held back.
    pub(crate) fn hold(&mut self, frame: Frame<Bytes>) -> Verdict {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                return self.hold_end();
            }
        };
        self.held.bytes += data.len();
        match &mut self.kind {
            Kind::Opaque { .. } => {
                self.queue.push_back(data);
                Verdict::Commit
            }
            Kind::Events(events) => {
                let found = events.push(data, &mut self.queue);
                self.held.events += found.events;
                self.is_over = found.is_error;
                match found.first {
                    Some(First::Content) => Verdict::Commit,
                    Some(First::Error(error)) => begun_with(&error),
                    None if self.held.bytes > HELD_STREAM_BYTES || self.held.events > HELD_EVENTS => {
                        Verdict::Commit
                    }
                    None => Verdict::Hold,
                }
            }
            Kind::Document(scanner) => {
                let mut verdict = Verdict::Hold;
                if let Some(scanner) = scanner {
                    scanner.push(&data, |event| match event.kind {
                        EventKind::Error(error) => verdict = begun_with(&error),
                        EventKind::Content | EventKind::Terminal => verdict = Verdict::Commit,
                        _ => {} // not yet
                    });
                }
                self.queue.push_back(data);
                match verdict {
                    Verdict::Hold if self.held.bytes > HELD_DOCUMENT_BYTES => Verdict::Commit,
                    verdict => verdict,
                }
            }
        }
    }

    /// The body of an answer that is held back is over.
    pub(crate) fn hold_end(&mut self) -> Verdict {
        let is_complete = match &mut self.kind {
            Kind::Events(events) => events.finish(&mut self.queue) == StreamEnd::Complete,
            // A document of a known operation that is complete was committed.
            Kind::Document(scanner) => scanner.is_none(),
            Kind::Opaque { is_ai } => !*is_ai,
        };
        if is_complete {
            Verdict::Commit
        } else {
            Verdict::Fail(classify::failure(Reason::Truncated))
        }
    }

    /// Whether part of a document came: it is being written, however long that takes.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.kind, Kind::Document(_)) && self.held.bytes > 0
    }

    /// Whether its length is the upstream's: an error event may be added to a stream.
    pub(crate) fn keeps_length(&self) -> bool {
        !matches!(self.kind, Kind::Events(_))
    }

    // === after the commit ===

    /// From here on all that comes is passed on.
    pub(crate) fn commit(&mut self) {
        if let Kind::Document(_) = self.kind {
            self.kind = Kind::Opaque { is_ai: false };
        }
    }

    /// The stream, if it is one of a known operation.
    pub(crate) fn events(&self) -> Option<&Events> {
        match &self.kind {
            Kind::Events(events) => Some(events),
            _ => None,
        }
    }

    /// Takes a frame.
    pub(crate) fn pass(&mut self, frame: Frame<Bytes>) {
        match (frame.into_data(), &mut self.kind) {
            (Ok(data), Kind::Events(events)) => {
                self.is_over = events.push(data, &mut self.queue).is_error;
            }
            (Ok(data), _) => self.queue.push_back(data),
            (Err(frame), _) => self.trailers = frame.into_trailers().ok(),
        }
    }

    /// Whether an error event ended it, whatever the upstream still sends.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How the answer ends, now that its body has ended.
    pub(crate) fn pass_end(&mut self) -> StreamEnd {
        match &mut self.kind {
            Kind::Events(events) => events.finish(&mut self.queue),
            _ => StreamEnd::Complete,
        }
    }

    /// Puts an event of our own at the end.
    pub(crate) fn append(&mut self, event: Bytes) {
        self.trailers = None;
        self.queue.push_back(event);
    }

    /// The next frame that can be passed on.
    pub(crate) fn next_data(&mut self) -> Option<Bytes> {
        self.queue.pop_front()
    }

    pub(crate) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.trailers.is_none()
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queue.iter().map(|data| data.len() as u64).sum()
    }
}

/// The answer begins with an error: another candidate may do better, or it is the caller's.
fn begun_with(error: &WireError) -> Verdict {
    match classify::stream_error(error) {
        Some(failure) => Verdict::Fail(failure),
        None => Verdict::Commit,
    }
}
