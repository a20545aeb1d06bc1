//! An answer of a provider as data: usable by the probe, by the upstream over sockets, or by itself.

use crate::{Answer, ScriptedBody};
use bytes::{Bytes, BytesMut};

/// A response as a provider sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// Its status.
    pub status: u16,
    /// Its headers, content-type among them.
    pub headers: Vec<(String, String)>,
    /// Its body: one frame, or one frame for each event of a stream.
    pub frames: Vec<Bytes>,
}

impl Sample {
    /// A JSON document.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            frames: vec![body.into()],
        }
    }

    /// A 200 with these events, each a whole one with its blank line.
    pub fn events<T: Into<Bytes>>(events: impl IntoIterator<Item = T>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream; charset=utf-8".into())],
            frames: events.into_iter().map(Into::into).collect(),
        }
    }

    /// With one more header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body in one piece.
    pub fn bytes(&self) -> Bytes {
        let mut all = BytesMut::new();
        self.frames.iter().for_each(|frame| all.extend_from_slice(frame));
        all.freeze()
    }

    /// The body frame by frame. A document has an exact length.
    pub fn body(&self) -> ScriptedBody {
        let body = ScriptedBody::of(self.frames.iter().cloned());
        if self.is_stream() {
            body
        } else {
            body.exact_length()
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.headers
            .iter()
            .any(|(name, value)| name == "content-type" && value.starts_with("text/event-stream"))
    }
}

impl From<Sample> for Answer {
    fn from(sample: Sample) -> Self {
        let answer = Self::status(sample.status, sample.body());
        sample
            .headers
            .iter()
            .fold(answer, |answer, (name, value)| answer.header(name, value))
    }
}
