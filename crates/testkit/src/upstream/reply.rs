//! What the upstream does with one request.

use super::{Gate, UpstreamRequest};
use crate::Sample;
use bytes::Bytes;
use std::{fmt, sync::Arc, time::Duration};

/// What the upstream does with one request: a sane answer, or a fault that some provider has shown.
///
/// Streams are 200 with `text/event-stream` in chunked encoding, each chunk written at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// Reads the request and answers. Streams are chunked, documents have a length; the connection is kept.
    Answer(Sample),
    /// Reads the request and streams these chunks, each after its delay.
    Stream(Vec<(Duration, Bytes)>),
    /// Has accepted the connection, and neither reads nor writes.
    AcceptSilent,
    /// Reads the head of the request, no byte of its body, and writes nothing.
    ReadHeadSilent,
    /// Reads the request and never answers.
    ReadSilent,
    /// Reads the request and sends the head of a stream, then nothing.
    HeadersSilent,
    /// Reads the request and sends an informational head of this status (100, 103), then nothing.
    InformationalSilent(u16),
    /// Streams these chunks, then nothing more, and does not close.
    StreamThenSilent(Vec<Bytes>),
    /// Streams these chunks, then breaks off.
    StreamThenCut(Vec<Bytes>, Cut),
    /// Announces as many bytes more than it sends, then closes.
    ShortContentLength {
        /// What is sent.
        body: Bytes,
        /// What is not.
        missing: usize,
    },
    /// Reads the request and answers what is not HTTP.
    Garbage,
    /// Closes when the request comes, without reading it: the client sees a reset, or an end, before any answer.
    CloseAtOnce,
    /// Answers after the head of the request, and lets the client end its upload only then.
    EarlyStatus(Sample),
    /// Reads the request's body slowly, then goes on as told.
    SlowRead {
        /// So many bytes …
        bytes: usize,
        /// … each such time.
        every: Duration,
        /// What follows.
        then: Box<Reply>,
    },
    /// Waits after the request was read, then goes on as told. See [`Reply::after`].
    After(Duration, Box<Reply>),
    /// Waits until the gate is open, then goes on as told. See [`Reply::behind`].
    Gate(Gate, Box<Reply>),
    /// Reads the request and decides then. See [`Reply::by`].
    By(Decision),
}

/// How a stream breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// A FIN inside a chunk.
    Fin,
    /// A RST.
    Rst,
    /// A FIN between two chunks, with no final one.
    NoFinalChunk,
    /// No chunks and no length: the FIN looks like a proper end.
    CloseDelimited,
}

/// The function of a [`Reply::By`].
#[derive(Clone)]
pub struct Decision(pub(super) Arc<dyn Fn(&UpstreamRequest) -> Reply + Send + Sync>);

impl Reply {
    /// Reads the request and replies what `decide` says.
    ///
    /// ```
    /// use testkit::{Reply, openai::Chat};
    ///
    /// let chat = Chat::new(["Hel", "lo"]);
    /// let sane = Reply::by(move |request| chat.clone().answering(&request.body));
    /// ```
    pub fn by<R: Into<Self>>(decide: impl Fn(&UpstreamRequest) -> R + Send + Sync + 'static) -> Self {
        Self::By(Decision(Arc::new(move |request| decide(request).into())))
    }

    /// A stream of these chunks with this time before each.
    pub fn stream<T: Into<Bytes>>(gap: Duration, chunks: impl IntoIterator<Item = T>) -> Self {
        Self::Stream(chunks.into_iter().map(|chunk| (gap, chunk.into())).collect())
    }

    /// The frames of a sample, then nothing more.
    pub fn stream_then_silent<T: Into<Bytes>>(chunks: impl IntoIterator<Item = T>) -> Self {
        Self::StreamThenSilent(chunks.into_iter().map(Into::into).collect())
    }

    /// The frames of a sample, then a cut.
    pub fn stream_then_cut<T: Into<Bytes>>(chunks: impl IntoIterator<Item = T>, how: Cut) -> Self {
        Self::StreamThenCut(chunks.into_iter().map(Into::into).collect(), how)
    }

    /// The same so much later, counted from when the request was read.
    pub fn after(self, delay: Duration) -> Self {
        Self::After(delay, Box::new(self))
    }

    /// The same, but not before the gate is open.
    pub fn behind(self, gate: &Gate) -> Self {
        Self::Gate(gate.clone(), Box::new(self))
    }

    /// The same after the request's body was read slowly.
    pub fn slowly(self, bytes: usize, every: Duration) -> Self {
        Self::SlowRead {
            bytes,
            every,
            then: Box::new(self),
        }
    }
}

impl From<Sample> for Reply {
    fn from(sample: Sample) -> Self {
        Self::Answer(sample)
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decision")
    }
}
