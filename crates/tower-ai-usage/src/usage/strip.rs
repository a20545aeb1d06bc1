//! Takes out of a stream what was asked for on our own account, and nothing else.

use bytes::{Bytes, BytesMut};
use tower_ai_wire::{MAX_EVENT_BYTES, UsageMember, splice};

/// Holds the start of an event until its end is there, [`MAX_EVENT_BYTES`] at most.
#[derive(Debug, Default)]
pub(super) struct Strip {
    held: BytesMut,
    /// The event that is under way was too long to hold; the rest of it passes too.
    is_passing: bool,
}

impl Strip {
    /// Takes the next bytes, in which these events end (offset and usage of each); returns those to pass on.
    pub(super) fn push(&mut self, data: &Bytes, ends: &[(usize, UsageMember)]) -> Bytes {
        let mut kept = Joined::default();
        let mut start = 0;
        for &(end, usage) in ends {
            let event = self.complete(data.slice(start..end));
            kept.push(Self::strip(event, usage));
            start = end;
        }
        let rest = data.slice(start..);
        if self.is_passing {
            kept.push(rest);
        } else {
            self.held.extend_from_slice(&rest);
            if self.held.len() > MAX_EVENT_BYTES {
                self.is_passing = true;
                kept.push(self.held.split().freeze());
            }
        }
        kept.into_bytes()
    }

    /// The body is over: what is held is an event too, if the scanner says so.
    pub(super) fn finish(&mut self, last: Option<UsageMember>) -> Bytes {
        let event = self.complete(Bytes::new());
        Self::strip(event, last.unwrap_or(UsageMember::Absent))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The event that ends here, or the rest of it: the scanner does not read one that is too long to hold either.
    fn complete(&mut self, end: Bytes) -> Bytes {
        self.is_passing = false;
        if self.held.is_empty() {
            return end;
        }
        self.held.extend_from_slice(&end);
        self.held.split().freeze()
    }

    fn strip(event: Bytes, usage: UsageMember) -> Bytes {
        match usage {
            UsageMember::Alone => Bytes::new(),
            UsageMember::Null => splice::without_usage(&event),
            // Beside content, the usage may have come unasked.
            UsageMember::Beside | UsageMember::Absent => event,
        }
    }
}

/// Pieces in one; a single piece is not copied.
#[derive(Default)]
struct Joined {
    first: Bytes,
    all: BytesMut,
}

impl Joined {
    fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            if self.all.is_empty() {
                self.all.extend_from_slice(&self.first);
            }
            self.all.extend_from_slice(&piece);
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}
