//! One JSON document: where it ends.

/// Longest document that is read; a longer one passes unread.
pub(super) const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line of white space in front of the document: the upstream lives.
    BlankLine,
    /// The whole document.
    Document(&'a [u8]),
    /// A whole document of so many bytes, longer than [`MAX_DOCUMENT_BYTES`].
    TooLong(usize),
}

/// Collects a document until its braces balance, at any split of its bytes.
#[derive(Debug, Default)]
pub(super) struct Collector {
    state: State,
    depth: usize,
    document: Vec<u8>,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the document.
    #[default]
    Before,
    /// Between the tokens of the document.
    Between,
    /// In a string.
    InString,
    /// After a backslash in a string.
    Escaped,
    /// After the document, or in something that is none.
    Done,
}

impl Collector {
    /// Hands on what is completed by `bytes`, with the offset in `bytes` right after it.
    pub(super) fn push(&mut self, bytes: &[u8], mut on_piece: impl FnMut(Piece<'_>, usize)) {
        let mut at = 0;
        while self.state == State::Before && at < bytes.len() {
            match bytes[at] {
                b'\n' => on_piece(Piece::BlankLine, at + 1),
                b' ' | b'\t' | b'\r' => {}
                b'{' | b'[' => {
                    self.state = State::Between;
                    break;
                }
                // The rest of a byte order mark, or no JSON at all.
                0xEF | 0xBB | 0xBF => {}
                _ => self.state = State::Done,
            }
            at += 1;
        }
        if matches!(self.state, State::Before | State::Done) {
            return;
        }
        let Some(len) = self.find_end(&bytes[at..]) else {
            return self.keep(&bytes[at..]);
        };
        let end = at + len;
        self.state = State::Done;
        let collected = std::mem::take(&mut self.document);
        let whole_len = std::mem::take(&mut self.len) + len;
        if whole_len > MAX_DOCUMENT_BYTES {
            on_piece(Piece::TooLong(whole_len), end);
        } else if collected.is_empty() {
            on_piece(Piece::Document(&bytes[at..end]), end);
        } else {
            on_piece(Piece::Document(&[&collected, &bytes[at..end]].concat()), end);
        }
    }

    /// Bytes of the document that is not complete.
    pub(super) fn partial_len(&self) -> usize {
        self.len
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        if self.len <= MAX_DOCUMENT_BYTES {
            self.document.extend_from_slice(bytes);
        } else {
            self.document = Vec::new();
        }
    }

    /// Where the document ends in `bytes`, which continue it.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::InString => match memchr::memchr2(b'"', b'\\', &bytes[at..]) {
                    Some(found) => {
                        at += found;
                        self.state = if bytes[at] == b'"' {
                            State::Between
                        } else {
                            State::Escaped
                        };
                    }
                    None => return None,
                },
                State::Escaped => self.state = State::InString,
                _ => match bytes[at] {
                    b'"' => self.state = State::InString,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                },
            }
            at += 1;
        }
        None
    }
}
