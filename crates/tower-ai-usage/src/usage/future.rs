use super::{UsageBody, body::Reader, record::Record};
use crate::{asked, observe};
use bytes::Bytes;
use http::{
    HeaderMap, Request, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
    request::Parts,
};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_ai_core::{
    AiCall, Buffered, Buffering, Call, LayerKind, Operation, Refusable, Refusal, RefusalFormat, RefusalKind,
    RefusedBy,
};
use tower_ai_wire::{Framing, read_request, splice};
use tower_service::Service;

pin_project! {
    /// The future of [`Usage`](crate::Usage).
    pub struct UsageFuture<S, B, F> {
        #[pin]
        state: State<S, B, F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B, F> {
        Reading { body: Buffering<B>, next: Option<(S, Outgoing)> },
        Calling { #[pin] future: F, incoming: Option<Incoming> },
    }
}

impl<S, B, F> UsageFuture<S, B, F> {
    pub(super) fn calling(future: F, incoming: Option<Incoming>) -> Self {
        let state = State::Calling { future, incoming };
        Self { state }
    }
}

impl<S, B: Body<Data = Bytes> + Unpin, F> UsageFuture<S, B, F> {
    pub(super) fn reading(body: B, limit: usize, inner: S, outgoing: Outgoing) -> Self {
        let state = State::Reading {
            body: Buffering::new(body, limit),
            next: Some((inner, outgoing)),
        };
        Self { state }
    }
}

/// A known AI call on its way to the upstream.
pub(super) struct Outgoing {
    pub(super) parts: Parts,
    pub(super) call: Call,
    pub(super) operation: Operation,
    pub(super) record: Record,
}

impl Outgoing {
    /// To know what is asked, or to ask for usage in the stream.
    pub(super) fn needs_body(&self) -> bool {
        self.call.ai().is_none_or(asks_for_usage)
    }

    /// The request, and what is to be done with its answer.
    pub(super) fn into_request<B>(mut self, body: Buffered<B>) -> (Request<Buffered<B>>, Incoming) {
        let Self { operation, .. } = self;
        if let (None, Some(bytes)) = (self.call.ai(), body.bytes())
            && let Ok(request) = read_request(operation, bytes)
        {
            self.call.set_ai(asked::ai_call(operation, &request));
        }
        let strips = self.call.ai().is_some_and(asks_for_usage) && body.bytes().is_some();
        let body = if strips {
            body.map_whole(|bytes| splice::ask_for_usage(operation, &bytes))
        } else {
            body
        };
        if strips
            && self.parts.headers.contains_key(CONTENT_LENGTH)
            && let Some(bytes) = body.bytes()
        {
            self.parts.headers.insert(CONTENT_LENGTH, bytes.len().into());
        }
        self.record.sent(self.call.ai());
        let incoming = Incoming {
            operation,
            strips,
            record: self.record,
        };
        (Request::from_parts(self.parts, body), incoming)
    }

    fn broken_off<B: Body>(&self) -> Response<UsageBody<B>> {
        let message = "the request body broke off";
        let kind = RefusalKind::InvalidRequest;
        Refusal::new(LayerKind::Usage, kind, "invalid_request", message)
            .into_response(RefusalFormat::of(&self.parts))
            .map(UsageBody::untouched)
    }
}

fn asks_for_usage(ai: &AiCall) -> bool {
    ai.stream && !ai.usage_asked
}

/// What is to be done with an answer.
pub(super) struct Incoming {
    operation: Operation,
    strips: bool,
    record: Record,
}

impl Incoming {
    fn read<B: Body<Data = Bytes>>(self, mut response: Response<B>) -> Response<UsageBody<B>> {
        let is_success = response.status().is_success();
        let refused_by = response.extensions().get::<RefusedBy>();
        self.record.head(is_success, refused_by);
        if refused_by.is_some() || !is_success {
            return response.map(Refusable::inner).map(UsageBody::untouched);
        }
        let framing = Framing::of(response.headers());
        if framing.is_none() {
            observe::unread(why_unreadable(response.headers()));
        }
        let strips = self.strips && framing == Some(Framing::Sse);
        if strips {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        let reader = Reader::new(self.record, self.operation, framing, strips);
        response.map(|body| UsageBody::read(body, reader))
    }
}

fn why_unreadable(headers: &HeaderMap) -> &'static str {
    if headers.contains_key(CONTENT_ENCODING) {
        "content_encoding"
    } else {
        "content_type"
    }
}

impl<S, B, R> Future for UsageFuture<S, B, S::Future>
where
    S: Service<Request<Buffered<B>>, Response = Response<R>>,
    B: Body<Data = Bytes> + Unpin,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<UsageBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Reading { body, next } => {
                    let body = ready!(body.poll(cx));
                    let (mut inner, outgoing) =
                        next.take().expect("a body is read once; do not poll after Ready");
                    let Ok(body) = body else {
                        return Poll::Ready(Ok(outgoing.broken_off()));
                    };
                    let (request, incoming) = outgoing.into_request(body);
                    let future = inner.call(request);
                    state.set(State::Calling {
                        future,
                        incoming: Some(incoming),
                    });
                }
                StateProj::Calling { future, incoming } => {
                    let response = ready!(future.poll(cx))?;
                    return Poll::Ready(Ok(match incoming.take() {
                        Some(incoming) => incoming.read(response),
                        None => response.map(Refusable::inner).map(UsageBody::untouched),
                    }));
                }
            }
        }
    }
}

impl<S, B, F> fmt::Debug for UsageFuture<S, B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Reading { .. } => "Reading",
            State::Calling { .. } => "Calling",
        };
        f.debug_tuple("UsageFuture").field(&state).finish()
    }
}
