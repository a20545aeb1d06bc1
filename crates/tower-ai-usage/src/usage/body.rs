use super::{
    record::{Record, Told},
    strip::Strip,
};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_ai_core::{Operation, Refusable};
use tower_ai_wire::{Framing, Scanner, UsageMember};

/// Bytes of an answer that cannot be read which are counted as one output token.
const BYTES_PER_TOKEN: u64 = 4;

pin_project! {
    /// The answer as it passes. Frames, trailers, `size_hint` and `is_end_stream` are the inner body's, except where
    /// usage that the caller did not ask for is taken out of a stream.
    pub struct UsageBody<B: Body> {
        #[pin]
        inner: Refusable<B>,
        reader: Option<Reader>,
        // What the inner body ended with, while bytes that were held back go first.
        end: Option<Option<Result<Frame<Bytes>, B::Error>>>,
    }
}

impl<B: Body> UsageBody<B> {
    pub(super) fn untouched(inner: Refusable<B>) -> Self {
        Self {
            inner,
            reader: None,
            end: None,
        }
    }

    pub(super) fn read(inner: B, reader: Reader) -> Self {
        Self {
            inner: Refusable::inner(inner),
            reader: Some(reader),
            end: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for UsageBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        if let Some(end) = this.end.take() {
            return Poll::Ready(end);
        }
        loop {
            let frame = ready!(this.inner.as_mut().poll_frame(cx));
            let Some(reader) = this.reader else {
                return Poll::Ready(frame);
            };
            let end = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let data = reader.push(data, this.inner.is_end_stream());
                        if data.is_empty() && reader.strips() {
                            continue; // all of it is held, or was taken out
                        }
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Err(trailers) => Some(Ok(trailers)),
                },
                end => end,
            };
            let held = reader.finish();
            if held.is_empty() {
                return Poll::Ready(end);
            }
            *this.end = Some(end);
            return Poll::Ready(Some(Ok(Frame::data(held))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream() && self.end.is_none() && !self.reader.as_ref().is_some_and(Reader::holds)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.reader {
            Some(reader) if reader.strips() => SizeHint::default(),
            _ => self.inner.size_hint(),
        }
    }
}

impl<B: Body> fmt::Debug for UsageBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsageBody")
            .field("is_read", &self.reader.is_some())
            .finish_non_exhaustive()
    }
}

/// Reads an answer and records what it tells, before the bytes that told it are passed on.
pub(super) struct Reader {
    record: Record,
    /// None: the answer is encoded, or of a type that is not known.
    scanner: Option<Scanner>,
    unread_bytes: u64,
    strip: Option<Strip>,
    /// Events that ended in the last push: where, and what they say of usage.
    ends: Vec<(usize, UsageMember)>,
    is_finished: bool,
}

impl Reader {
    /// For an answer in this framing; `None` if it cannot be read.
    pub(super) fn new(record: Record, operation: Operation, framing: Option<Framing>, strips: bool) -> Self {
        Self {
            record,
            scanner: framing.map(|framing| Scanner::new(operation, framing)),
            unread_bytes: 0,
            strip: strips.then(Strip::default),
            ends: Vec::new(),
            is_finished: false,
        }
    }

    /// Takes a frame's data, and returns what is to be passed on of it and of what was held.
    fn push(&mut self, data: Bytes, is_last: bool) -> Bytes {
        self.ends.clear();
        let ends = &mut self.ends;
        match &mut self.scanner {
            Some(scanner) => scanner.push(&data, |event| ends.push((event.end, event.usage))),
            None => self.unread_bytes += data.len() as u64,
        }
        let passed = match &mut self.strip {
            Some(strip) => strip.push(&data, &self.ends),
            None => data,
        };
        if !is_last {
            self.note();
            return passed;
        }
        let held = self.finish();
        if held.is_empty() {
            passed
        } else {
            [passed, held].concat().into()
        }
    }

    /// The body is over, and returns what was held of it.
    fn finish(&mut self) -> Bytes {
        if std::mem::replace(&mut self.is_finished, true) {
            return Bytes::new();
        }
        let mut last = None;
        if let Some(scanner) = &mut self.scanner {
            scanner.finish(|event| last = Some(event.usage));
        }
        self.note();
        self.strip
            .as_mut()
            .map_or_else(Bytes::new, |strip| strip.finish(last))
    }

    fn note(&mut self) {
        let told = match &self.scanner {
            Some(scanner) => {
                self.record.echoed(scanner.model(), scanner.service_tier());
                Told {
                    counts: scanner.usage().copied(),
                    is_final: scanner.usage_is_final(),
                    forwarded: scanner.output_tokens_seen(),
                }
            }
            None => Told {
                counts: None,
                is_final: false,
                forwarded: self.unread_bytes.div_ceil(BYTES_PER_TOKEN),
            },
        };
        self.record.told(told);
    }

    fn strips(&self) -> bool {
        self.strip.is_some()
    }

    fn holds(&self) -> bool {
        self.strip.as_ref().is_some_and(|strip| !strip.is_empty())
    }
}
