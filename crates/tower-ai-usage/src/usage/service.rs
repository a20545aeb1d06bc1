use super::{
    future::{Outgoing, UsageFuture},
    layer::Settings,
    record::Record,
};
use crate::asked;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::ACCEPT_ENCODING};
use http_body::Body;
use std::{
    mem,
    task::{Context, Poll},
};
use tower_ai_core::{Attempt, Buffered, Call, LayerKind};
use tower_service::Service;

/// The service of [`UsageLayer`](crate::UsageLayer).
#[derive(Clone, Debug)]
pub struct Usage<S> {
    inner: S,
    settings: Settings,
}

impl<S> Usage<S> {
    pub(super) fn new(inner: S, settings: Settings) -> Self {
        Self { inner, settings }
    }
}

impl<S, B, R> Service<Request<B>> for Usage<S>
where
    S: Service<Request<Buffered<B>>, Response = Response<R>> + Clone,
    B: Body<Data = Bytes> + Unpin,
    R: Body<Data = Bytes>,
{
    type Response = Response<super::UsageBody<R>>;
    type Error = S::Error;
    type Future = UsageFuture<S, B, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let call = Call::of(&mut parts.extensions);
        let operation = call
            .ai()
            .map(|ai| ai.operation)
            .or_else(|| asked::operation_of(&parts));
        let Some(operation) = operation else {
            // Not noted in the call either: a budget then charges the estimate, rather than an answer of no tokens.
            let request = Request::from_parts(parts, Buffered::unread(body));
            return UsageFuture::calling(self.inner.call(request), None);
        };
        call.enter(LayerKind::Usage);
        let attempt = parts.extensions.get::<Attempt>();
        let record = Record::new(&call, operation, attempt, &self.settings.prices);
        if attempt.is_none() {
            // With failover, its `prepare` does this.
            parts
                .headers
                .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let outgoing = Outgoing {
            parts,
            call,
            operation,
            record,
        };
        if outgoing.needs_body() {
            let clone = self.inner.clone();
            let inner = mem::replace(&mut self.inner, clone);
            UsageFuture::reading(body, self.settings.body_limit, inner, outgoing)
        } else {
            let (request, incoming) = outgoing.into_request(Buffered::unread(body));
            UsageFuture::calling(self.inner.call(request), Some(incoming))
        }
    }
}
