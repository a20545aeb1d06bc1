//! Request bodies that a layer has to read first: whole up to a cap, else a prefix and the rest.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A body that was read whole, or up to a cap: then what was read, and the rest.
///
/// A whole body yields one frame and is cheap to clone as [`Bytes`]; a layer further in that reads it again copies
/// nothing.
pub struct Buffered<B>(State<B>);

enum State<B> {
    Whole {
        data: Bytes,
        trailers: Option<HeaderMap>,
    },
    Over {
        prefix: Bytes,
        rest: B,
    },
}

impl<B> Buffered<B> {
    /// A body of these bytes.
    pub fn whole(data: impl Into<Bytes>) -> Self {
        Self(State::Whole {
            data: data.into(),
            trailers: None,
        })
    }

    /// A body that is not read: it passes as it comes.
    pub fn unread(rest: B) -> Self {
        Self(State::Over {
            prefix: Bytes::new(),
            rest,
        })
    }

    /// The bytes, if the body was read whole.
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            State::Whole { data, .. } => Some(data),
            State::Over { .. } => None,
        }
    }

    /// The same body once more, if it was read whole: its bytes are shared, its trailers copied.
    pub fn again(&self) -> Option<Self> {
        match &self.0 {
            State::Whole { data, trailers } => Some(Self(State::Whole {
                data: data.clone(),
                trailers: trailers.clone(),
            })),
            State::Over { .. } => None,
        }
    }

    /// Changes the bytes of a body that was read whole; one that was not is left as it is.
    pub fn map_whole(self, change: impl FnOnce(Bytes) -> Bytes) -> Self {
        Self(match self.0 {
            State::Whole { data, trailers } => State::Whole {
                data: change(data),
                trailers,
            },
            over @ State::Over { .. } => over,
        })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Buffered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.0 {
            State::Whole { data, .. } if !data.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(mem::take(data)))))
            }
            State::Whole { trailers, .. } => Poll::Ready(trailers.take().map(Frame::trailers).map(Ok)),
            State::Over { prefix, .. } if !prefix.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(mem::take(prefix)))))
            }
            State::Over { rest, .. } => Pin::new(rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Whole { data, trailers } => data.is_empty() && trailers.is_none(),
            State::Over { prefix, rest } => prefix.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Whole { data, .. } => SizeHint::with_exact(data.len() as u64),
            State::Over { prefix, rest } => longer(rest.size_hint(), prefix.len() as u64),
        }
    }
}

fn longer(rest: SizeHint, by: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(by)) {
        hint.set_upper(upper);
    }
    hint.set_lower(rest.lower().saturating_add(by));
    hint
}

impl<B> fmt::Debug for Buffered<B> {
    /// Sizes only: a body holds prompts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Whole { data, .. } => f.debug_struct("Whole").field("bytes", &data.len()).finish(),
            State::Over { prefix, .. } => f
                .debug_struct("Over")
                .field("prefix", &prefix.len())
                .finish_non_exhaustive(),
        }
    }
}

/// Reads a body up to a cap; poll it to [`Buffered`].
///
/// `B` is `Unpin` because the body moves on after it was polled (the bodies of hyper, axum and tonic are).
#[derive(Debug)]
pub struct Buffering<B> {
    body: Option<B>,
    read: Read,
    trailers: Option<HeaderMap>,
    cap: usize,
}

#[derive(Debug)]
enum Read {
    Nothing,
    /// The frame as it came: a body of one frame is never copied.
    One(Bytes),
    Many(BytesMut),
}

impl Read {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(data) => data.len(),
            Self::Many(data) => data.len(),
        }
    }

    fn push(&mut self, data: Bytes, expected: usize) {
        *self = match mem::replace(self, Self::Nothing) {
            Self::Nothing => Self::One(data),
            Self::One(first) => {
                let mut all = BytesMut::with_capacity((first.len() + data.len()).max(expected));
                all.extend_from_slice(&first);
                all.extend_from_slice(&data);
                Self::Many(all)
            }
            Self::Many(mut all) => {
                all.extend_from_slice(&data);
                Self::Many(all)
            }
        };
    }

    fn take(&mut self) -> Bytes {
        match mem::replace(self, Self::Nothing) {
            Self::Nothing => Bytes::new(),
            Self::One(data) => data,
            Self::Many(data) => data.freeze(),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Buffering<B> {
    /// Starts to read `body`, at most about `cap` bytes of it.
    pub fn new(body: B, cap: usize) -> Self {
        Self {
            body: Some(body),
            read: Read::Nothing,
            trailers: None,
            cap,
        }
    }

    /// Bytes read so far.
    pub fn len(&self) -> usize {
        self.read.len()
    }

    /// Whether nothing was read so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads on. A body that announces more than the cap is not read at all.
    ///
    /// # Errors
    /// The body's own.
    ///
    /// # Panics
    /// When polled again after it was ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffered<B>, B::Error>> {
        loop {
            let body = self
                .body
                .as_mut()
                .expect("a body is buffered once; do not poll after Ready");
            let announced = body.size_hint().lower();
            if self.read.len() as u64 + announced > self.cap as u64 {
                let rest = self.body.take().expect("checked above");
                return Poll::Ready(Ok(Buffered(State::Over {
                    prefix: self.read.take(),
                    rest,
                })));
            }
            let ended = body.is_end_stream();
            let frame = if ended {
                None
            } else {
                ready!(Pin::new(body).poll_frame(cx)).transpose()?
            };
            match frame.map(Frame::into_data) {
                None => {
                    self.body = None;
                    let (data, trailers) = (self.read.take(), self.trailers.take());
                    return Poll::Ready(Ok(Buffered(State::Whole { data, trailers })));
                }
                Some(Ok(data)) => {
                    let expected = self.read.len() + announced as usize;
                    self.read.push(data, expected.min(self.cap));
                }
                Some(Err(other)) => {
                    if let Ok(trailers) = other.into_trailers() {
                        self.trailers = Some(trailers);
                    }
                }
            }
        }
    }
}
