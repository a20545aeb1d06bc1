//! An event stream, cut so that only whole events are passed on.

use bytes::Bytes;
use std::collections::VecDeque;
use tower_ai_core::{Dialect, Operation};
use tower_ai_wire::{Ending, EventKind, Framing, MAX_EVENT_BYTES, Scanner, WireError};

/// Cuts a stream after complete events. Nothing is copied: what it gives out are slices of what it was given.
#[derive(Debug)]
pub(crate) struct Events {
    scanner: Scanner,
    dialect: Dialect,
    /// What came of an event that is not complete.
    partial: Vec<Bytes>,
    partial_bytes: usize,
    /// The event is longer than anyone should hold: it passes as it comes.
    is_overlong: bool,
}

/// What some bytes of a stream brought.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Events that became complete.
    pub(crate) events: usize,
    /// The first of them that decides whether the answer has begun.
    pub(crate) first: Option<First>,
    /// An error event ended the stream. It is the last thing that was given out.
    pub(crate) is_error: bool,
}

/// An event that decides whether an answer has begun.
#[derive(Debug)]
pub(crate) enum First {
    /// Content, or an end without any.
    Content,
    Error(WireError),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Complete,
    /// Without its terminal marker.
    Cut,
}

impl Events {
    pub(crate) fn new(operation: Operation) -> Self {
        Self {
            scanner: Scanner::new(operation, Framing::Sse),
            dialect: operation.dialect(),
            partial: Vec::new(),
            partial_bytes: 0,
            is_overlong: false,
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Takes some bytes, and gives out all events that are complete with them.
    pub(crate) fn push(&mut self, data: Bytes, out: &mut VecDeque<Bytes>) -> Found {
        let mut found = Found::default();
        let mut end = None;
        self.scanner.push(&data, |event| {
            if found.is_error {
                return; // what follows an error is no part of the answer
            }
            found.events += 1;
            end = Some(event.end);
            let first = match event.kind {
                EventKind::Content | EventKind::Terminal => Some(First::Content),
                EventKind::Error(error) => {
                    found.is_error = true;
                    Some(First::Error(error))
                }
                _ => None, // life signs, preludes
            };
            found.first = found.first.take().or(first);
        });
        let Some(end) = end else {
            self.keep(data, out);
            return found;
        };
        self.flush(out);
        self.is_overlong = false;
        if end == data.len() {
            out.push_back(data);
            return found;
        }
        if end > 0 {
            out.push_back(data.slice(..end));
        }
        self.keep(data.slice(end..), out);
        found
    }

    fn keep(&mut self, data: Bytes, out: &mut VecDeque<Bytes>) {
        self.partial_bytes += data.len();
        self.partial.push(data);
        if self.is_overlong || self.partial_bytes > MAX_EVENT_BYTES {
            self.is_overlong = true;
            self.flush(out);
        }
    }

    fn flush(&mut self, out: &mut VecDeque<Bytes>) {
        out.extend(self.partial.drain(..));
        self.partial_bytes = 0;
    }

    /// The stream is over. A last event that lacks its blank line is given out, one that was cut is not.
    pub(crate) fn finish(&mut self, out: &mut VecDeque<Bytes>) -> StreamEnd {
        let mut is_whole = false;
        self.scanner.finish(|_| is_whole = true);
        let end = self.ending();
        if is_whole && end == StreamEnd::Complete {
            self.flush(out);
        }
        self.partial.clear();
        end
    }

    /// How the stream ended, if it ended now, with its connection or without.
    pub(crate) fn ending(&self) -> StreamEnd {
        match self.scanner.ending() {
            Ending::Complete | Ending::Incomplete => StreamEnd::Complete,
            _ => StreamEnd::Cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{anthropic::Message, openai::Chat};

    fn pushed(events: &mut Events, data: impl Into<Bytes>) -> (Vec<Bytes>, Found) {
        let mut out = VecDeque::new();
        let found = events.push(data.into(), &mut out);
        (out.into(), found)
    }

    fn chat() -> Events {
        Events::new(Operation::ChatCompletions)
    }

    #[test]
    fn a_chunk_of_whole_events_passes_as_the_very_same_bytes() {
        let chunk = Chat::new(["a", "b"]).stream().bytes();
        let (out, found) = pushed(&mut chat(), chunk.clone());
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].as_ptr(), chunk.as_ptr());
        assert_eq!(found.events, 5);
    }

    #[test]
    fn a_partial_event_waits_for_its_end() {
        let mut events = chat();
        let chunk = Chat::new(["hello"]).stream().bytes();
        let inside = chunk.len() - 4;
        let (first, _) = pushed(&mut events, chunk.slice(..inside));
        assert!(first.concat().ends_with(b"\n\n"));
        let (second, _) = pushed(&mut events, chunk.slice(inside..));
        assert_eq!([first, second].concat().concat(), chunk);
    }

    #[test]
    fn at_every_split_the_same_bytes_come_out_and_only_whole_events() {
        for sample in [
            Chat::new(["Hel", "lo"]).stream(),
            Message::new(["Hel", "lo"]).stream(),
        ] {
            let operation = match sample.frames.len() {
                5 => Operation::ChatCompletions,
                _ => Operation::Messages,
            };
            let bytes = sample.bytes();
            for split in 0..=bytes.len() {
                let mut events = Events::new(operation);
                let (first, _) = pushed(&mut events, bytes.slice(..split));
                let first = first.concat();
                assert!(first.is_empty() || first.ends_with(b"\n\n"), "split at {split}");
                let (second, _) = pushed(&mut events, bytes.slice(split..));
                assert_eq!([first, second.concat()].concat(), bytes, "split at {split}");
            }
        }
    }

    #[test]
    fn nothing_after_an_error_event_is_given_out() {
        let error = testkit::openai::error_event("server_error", "broke");
        let (out, found) = pushed(&mut chat(), format!("{error}data: [DONE]\n\n"));
        assert!(found.is_error);
        assert_eq!(out.concat(), error.as_bytes());
    }

    #[test]
    fn an_overlong_event_passes_as_it_comes_and_the_next_is_whole_again() {
        let mut events = chat();
        let piece = Bytes::from(vec![b'x'; 700_000]);
        assert!(pushed(&mut events, piece.clone()).0.is_empty());
        assert_eq!(pushed(&mut events, piece.clone()).0.len(), 2);
        assert_eq!(pushed(&mut events, piece).0.len(), 1);
        assert_eq!(pushed(&mut events, &b"\n\ndata"[..]).0.concat(), b"\n\n");
        assert_eq!(events.partial_bytes, 4);
    }

    #[test]
    fn a_cut_event_is_never_given_out() {
        let mut events = chat();
        let stream = Chat::new(["hello"]).stream();
        let _ = pushed(&mut events, stream.frames[0].clone());
        let _ = pushed(&mut events, stream.frames[1].slice(..20));
        let mut out = VecDeque::new();
        assert_eq!(events.finish(&mut out), StreamEnd::Cut);
        assert!(out.is_empty());
    }

    #[test]
    fn a_cut_event_after_the_terminal_marker_is_dropped_and_the_end_is_clean() {
        let mut events = chat();
        let stream = Chat::new(["hello"]).stream_with_usage();
        for frame in &stream.frames[..3] {
            let _ = pushed(&mut events, frame.clone());
        }
        let _ = pushed(&mut events, stream.frames[3].slice(..40));
        let mut out = VecDeque::new();
        assert_eq!(events.finish(&mut out), StreamEnd::Complete);
        assert!(out.is_empty());
    }

    #[test]
    fn a_last_event_without_its_blank_line_is_given_out() {
        let mut events = chat();
        let stream = Chat::new(["hello"]).stream().bytes();
        let (first, _) = pushed(&mut events, stream.slice(..stream.len() - 2));
        let mut out = VecDeque::new();
        assert_eq!(events.finish(&mut out), StreamEnd::Complete);
        assert_eq!(
            [first, out.into()].concat().concat(),
            stream.slice(..stream.len() - 2)
        );
    }
}
