//! The five ends of a body as data.

use crate::ScriptedBody;
use bytes::Bytes;
use http_body::Body;
use std::pin::pin;
use tower_ai_core::BodyEnd;

/// One of the five ends a body can meet.
///
/// ```
/// use testkit::{ALL_ENDS, End};
/// use tower_ai_core::TapBody;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// for end in ALL_ENDS {
///     let mut told = Vec::new();
///     let answer = TapBody::new(end.body(["some ", "data"]), |end| told.push(end));
///     end.meet(answer).await;
///     assert_eq!(told, [end.told_as()]);
/// }
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is polled to `None`.
    Complete,
    /// It ends with a trailers frame and is not polled again.
    Trailers,
    /// It fails after its data.
    Error,
    /// It has an exact length, and is not polled again once `is_end_stream` is true.
    EndStream,
    /// It is dropped after its first frame.
    Dropped,
}

/// All of them, for a test that loops.
pub const ALL_ENDS: [End; 5] = [
    End::Complete,
    End::Trailers,
    End::Error,
    End::EndStream,
    End::Dropped,
];

impl End {
    /// A body of these frames that can meet this end. Give it two frames or more.
    pub fn body<T: Into<Bytes>>(self, frames: impl IntoIterator<Item = T>) -> ScriptedBody {
        let body = ScriptedBody::of(frames);
        match self {
            Self::Complete | Self::Dropped => body,
            Self::Trailers => body.trailers([("x-end", "trailers")]),
            Self::Error => body.error("the script cuts the body"),
            Self::EndStream => body.exact_length(),
        }
    }

    /// Reads `body` as far as this end goes, then drops it. Returns the data that came.
    pub async fn meet<B: Body<Data = Bytes>>(self, body: B) -> Vec<Bytes> {
        let mut body = pin!(body);
        let mut data = Vec::new();
        while !(self == Self::EndStream && body.is_end_stream()) {
            let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
            let Some(Ok(frame)) = frame else { break };
            let is_last = frame.is_trailers() || self == Self::Dropped;
            data.extend(frame.into_data());
            if is_last {
                break;
            }
        }
        data
    }

    /// What a guard in a [`TapBody`](tower_ai_core::TapBody) is told.
    pub const fn told_as(self) -> BodyEnd {
        match self {
            Self::Complete => BodyEnd::Complete,
            Self::Trailers => BodyEnd::Trailers,
            Self::Error => BodyEnd::Error,
            Self::EndStream => BodyEnd::EndStream,
            Self::Dropped => BodyEnd::Dropped,
        }
    }
}
