//! Reads one request body within its limits.

use super::{
    layer::Settings,
    memory::{Hold, Take},
    rejection::Rejection,
};
use bytes::Bytes;
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::time::{Sleep, sleep};
use tower_ai_core::{Buffered, Buffering};

pin_project! {
    #[derive(Debug)]
    pub(super) struct Reading<B> {
        #[pin]
        memory: Take,
        hold: Option<Hold>,
        body: Buffering<B>,
        limit: usize,
        #[pin]
        timeout: Sleep,
    }
}

/// A body that was read whole, and the memory it takes.
#[derive(Debug)]
pub(super) struct Read<B> {
    pub(super) body: Buffered<B>,
    pub(super) bytes: Bytes,
    pub(super) hold: Hold,
}

impl<B: Body<Data = Bytes> + Unpin> Reading<B> {
    /// Reads `body`, unless what is announced (by it, or by the header) is over the limit.
    pub(super) fn new(body: B, content_length: Option<u64>, settings: &Settings) -> Result<Self, Rejection> {
        let limit = settings.body_limit as u64;
        let least = body.size_hint().lower().max(content_length.unwrap_or(0));
        if least > limit {
            return Err(Rejection::TooLarge {
                limit: settings.body_limit,
            });
        }
        let most = body
            .size_hint()
            .upper()
            .or(content_length)
            .unwrap_or(limit)
            .min(limit);
        Ok(Self {
            memory: settings.memory.take(most),
            hold: None,
            body: Buffering::new(body, settings.body_limit),
            limit: settings.body_limit,
            timeout: sleep(settings.read_timeout),
        })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Future for Reading<B> {
    type Output = Result<Read<B>, Rejection>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.hold.is_none()
            && let Poll::Ready(hold) = this.memory.poll(cx)
        {
            *this.hold = Some(hold);
        }
        if this.hold.is_some()
            && let Poll::Ready(body) = this.body.poll(cx)
        {
            let body = body.map_err(|_| Rejection::Broken)?;
            let bytes = body
                .bytes()
                .cloned()
                .ok_or(Rejection::TooLarge { limit: *this.limit })?;
            let hold = this.hold.take().expect("taken before the body is read");
            return Poll::Ready(Ok(Read { body, bytes, hold }));
        }
        this.timeout.poll(cx).map(|()| {
            Err(match this.hold {
                Some(_) => Rejection::TooSlow,
                None => Rejection::NoMemory,
            })
        })
    }
}
