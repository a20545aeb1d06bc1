//! Server-sent events: where each one ends, and what its lines say.

use std::{borrow::Cow, ops::Range};

/// Longest event that is read; a longer one passes unread.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// May stand in front of a stream's first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What the splitter found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A whole event, the blank line that ends it included.
    Event(&'a [u8]),
    /// An event of so many bytes, longer than [`MAX_EVENT_BYTES`].
    TooLong(usize),
}

/// Cuts a stream into events, at any split of its bytes.
///
/// An event that lies within one push is handed on where it lies; only the tail of a push that ends inside an event is
/// copied and kept.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    boundary: Boundary,
    /// What there is of an event that is not complete, unless it is too long.
    partial: Vec<u8>,
    /// Its length, whether it is kept or not.
    partial_len: usize,
}

impl Splitter {
    /// Hands on each event that is completed by `bytes`, with the offset in `bytes` right after it.
    pub(super) fn push(&mut self, bytes: &[u8], mut on_piece: impl FnMut(Piece<'_>, usize)) {
        let mut start = 0;
        while let Some(end) = self.boundary.find(bytes, start) {
            let tail = &bytes[start..end];
            let len = self.partial_len + tail.len();
            let piece = if len > MAX_EVENT_BYTES {
                Piece::TooLong(len)
            } else if self.partial.is_empty() {
                Piece::Event(tail)
            } else {
                self.partial.extend_from_slice(tail);
                Piece::Event(&self.partial)
            };
            on_piece(piece, end);
            self.partial.clear();
            self.partial_len = 0;
            start = end;
        }
        self.keep(&bytes[start..]);
    }

    fn keep(&mut self, tail: &[u8]) {
        self.partial_len += tail.len();
        if self.partial_len <= MAX_EVENT_BYTES {
            self.partial.extend_from_slice(tail);
        } else {
            self.partial = Vec::new();
        }
    }

    /// What is left when the stream is over, if it was kept.
    pub(super) fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.partial_len = 0;
        self.boundary = Boundary::default();
        let rest = std::mem::take(&mut self.partial);
        (!rest.is_empty()).then_some(rest)
    }

    /// Bytes of the event that is not complete.
    pub(super) fn partial_len(&self) -> usize {
        self.partial_len
    }
}

/// Finds the blank line that ends an event. Lines end with LF, CRLF or CR, mixed as they come.
///
/// A CR may be half of a CRLF whose LF is still to come. Where the blank line is a CR after an LF, its end is only known
/// with the next byte; where the line before it ended with a CR alone, the stream uses CRs alone and nothing is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Boundary {
    /// At the start of a line.
    #[default]
    LineStart,
    /// Within a line.
    Line,
    /// After the CR that ended a line: an LF would still belong to it.
    LineCr,
    /// After the CR of a blank line: an LF would still belong to it.
    BlankCr,
}

impl Boundary {
    /// Where the event ends, looking from `at` on.
    fn find(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        while let Some(&byte) = bytes.get(at) {
            match (*self, byte) {
                (Self::Line, _) => match memchr::memchr2(b'\n', b'\r', &bytes[at..]) {
                    Some(line) => {
                        at += line;
                        *self = if bytes[at] == b'\n' {
                            Self::LineStart
                        } else {
                            Self::LineCr
                        };
                    }
                    None => return None,
                },
                (Self::LineStart, b'\n') | (Self::LineCr, b'\r') | (Self::BlankCr, b'\n') => {
                    *self = Self::LineStart;
                    return Some(at + 1);
                }
                (Self::BlankCr, _) => {
                    *self = Self::LineStart;
                    return Some(at);
                }
                (Self::LineCr, b'\n') => *self = Self::LineStart,
                (Self::LineStart, b'\r') => *self = Self::BlankCr,
                (Self::LineStart | Self::LineCr, _) => *self = Self::Line,
            }
            at += 1;
        }
        None
    }
}

/// What the lines of an event say.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    /// The `event:` field.
    pub(super) name: Option<&'a [u8]>,
    /// The `data:` fields, joined by LF.
    pub(super) data: Option<Cow<'a, [u8]>>,
    /// Whether the data came in a field named `error` (an old llama.cpp).
    pub(super) in_error_field: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn of(event: &'a [u8]) -> Self {
        let mut fields = Self::default();
        for line in lines(event) {
            let text = &event[line.clone()];
            // Some servers end a stream with a bare JSON document: the rest of the event is it.
            if matches!(text.first(), Some(b'{' | b'[')) {
                fields.data = Some(Cow::Borrowed(&event[line.start..]));
                break;
            }
            let value = &event[value_of(text, line.clone())];
            match field_name(text) {
                b"data" => fields.add_data(value),
                b"error" => {
                    fields.in_error_field = true;
                    fields.add_data(value);
                }
                b"event" => fields.name = Some(value),
                _ => {}
            }
        }
        fields
    }

    fn add_data(&mut self, value: &'a [u8]) {
        self.data = Some(match self.data.take() {
            None => Cow::Borrowed(value),
            Some(data) => {
                let mut data = data.into_owned();
                data.push(b'\n');
                data.extend_from_slice(value);
                Cow::Owned(data)
            }
        });
    }
}

/// Where the data of an event stands in it.
#[derive(Debug)]
pub(crate) struct DataLines<'a> {
    event: &'a [u8],
    values: Vec<Range<usize>>,
}

impl<'a> DataLines<'a> {
    pub(crate) fn of(event: &'a [u8]) -> Self {
        let data = lines(event).filter(|line| field_name(&event[line.clone()]) == b"data");
        let values = data.map(|line| value_of(&event[line.clone()], line)).collect();
        Self { event, values }
    }

    /// The data, its lines joined by LF.
    pub(crate) fn data(&self) -> Cow<'a, [u8]> {
        match self.values.as_slice() {
            [one] => Cow::Borrowed(&self.event[one.clone()]),
            several => {
                let lines: Vec<_> = several.iter().map(|value| &self.event[value.clone()]).collect();
                Cow::Owned(lines.join(&b'\n'))
            }
        }
    }

    /// The ranges of the event that a range of the data covers, in order.
    pub(crate) fn in_event(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut line_start = 0;
        let mut covered = Vec::new();
        for value in &self.values {
            let from = range.start.clamp(line_start, line_start + value.len());
            let to = range.end.clamp(line_start, line_start + value.len());
            if from < to {
                covered.push(value.start + from - line_start..value.start + to - line_start);
            }
            line_start += value.len() + 1;
        }
        covered
    }
}

/// The lines of an event, without their ends.
fn lines(event: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = if event.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len()
    } else {
        0
    };
    std::iter::from_fn(move || {
        let rest = event.get(at..).filter(|rest| !rest.is_empty())?;
        let len = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = at..at + len;
        let line_end = if rest[len..].starts_with(b"\r\n") { 2 } else { 1 };
        at += len + line_end;
        Some(line)
    })
}

/// The name of a line's field; of a comment, the empty name.
fn field_name(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr(b':', line).unwrap_or(line.len())]
}

/// Where the value of a line's field stands: behind the colon and one space.
fn value_of(line: &[u8], range: Range<usize>) -> Range<usize> {
    let name_len = field_name(line).len();
    let value = line.get(name_len + 1..).unwrap_or_default();
    let space = usize::from(value.starts_with(b" "));
    (range.start + name_len + 1 + space).min(range.end)..range.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_in_one_push_is_not_copied() {
        let stream = b"data: 1\n\ndata: 2\n\n";
        let mut found = Vec::new();
        Splitter::default().push(stream, |piece, end| {
            let Piece::Event(event) = piece else {
                panic!("too long")
            };
            found.push((event.as_ptr(), end));
        });
        assert_eq!(found, [(stream.as_ptr(), 9), (stream[9..].as_ptr(), 18)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_counted() {
        let mut splitter = Splitter::default();
        let piece = vec![b'x'; 64 << 10];
        for pushed in 1..=40 {
            splitter.push(&piece, |_, _| panic!("no event is complete"));
            assert_eq!(splitter.partial_len(), pushed * piece.len());
            assert!(splitter.partial.capacity() <= 2 * MAX_EVENT_BYTES);
        }
        let mut found = Vec::new();
        splitter.push(b"\n\n:\n\n", |piece, end| {
            found.push((
                matches!(piece, Piece::TooLong(len) if len == 40 * (64 << 10) + 2),
                end,
            ));
        });
        assert_eq!(found, [(true, 2), (false, 5)]);
        assert_eq!(splitter.partial_len(), 0);
    }

    #[test]
    fn the_blank_line_of_an_event_goes_with_it() {
        let ends = |stream: &[u8]| {
            let mut ends = Vec::new();
            Splitter::default().push(stream, |_, end| ends.push(end));
            ends
        };
        assert_eq!(ends(b"a\n\nb\n\n"), [3, 6]);
        assert_eq!(ends(b"a\r\n\r\nb\r\n\r\n"), [5, 10]);
        assert_eq!(ends(b"a\r\rb\r\r"), [3, 6]);
        assert_eq!(ends(b"a\n\r\nb"), [4]);
        assert_eq!(ends(b"a\n\rb"), [3]);
        assert!(ends(b"a\r\n\r").is_empty(), "an LF may still come");
    }
}
