//! The service.

use crate::{
    ResponseBody, ResponseFuture, Store,
    ask::Ask,
    decision::{Decision, Refused, missing_key},
    layer::Rules,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};
use tower_ai_core::{Call, LayerKind, RefusalFormat, Step};
use tower_service::Service;

/// Admits a request when it fits all its limits: see the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct RateLimit<S, St> {
    inner: S,
    store: St,
    rules: Arc<Rules>,
}

impl<S, St> RateLimit<S, St> {
    pub(crate) fn new(inner: S, store: St, rules: Arc<Rules>) -> Self {
        Self { inner, store, rules }
    }
}

impl<S, St, B, R> Service<Request<B>> for RateLimit<S, St>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    St: Store,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R, St>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, St>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let call = Call::of(&mut parts.extensions);
        call.enter(LayerKind::RateLimit);
        let ask = match Ask::of(&self.store, &self.rules, &parts, call) {
            Ok(ask) => ask,
            Err(by) => return self.refuse(missing_key(by), RefusalFormat::of(&parts)),
        };
        if ask.charges.is_empty() {
            return ResponseFuture::calling(self.inner.call(Request::from_parts(parts, body)), None);
        }
        match ask.take() {
            Step::Now(verdict) => match Decision::of(ask, verdict) {
                Decision::Pass(admitted) => {
                    ResponseFuture::calling(self.inner.call(Request::from_parts(parts, body)), admitted)
                }
                Decision::Refuse(refused) => self.refuse(refused, RefusalFormat::of(&parts)),
            },
            Step::Later(verdict) => {
                let clone = self.inner.clone();
                let polled = mem::replace(&mut self.inner, clone);
                ResponseFuture::deciding(verdict, polled, Request::from_parts(parts, body), ask)
            }
        }
    }
}

impl<S: Clone, St: Store> RateLimit<S, St> {
    /// The inner service was polled ready for a call that does not come: a fresh instance gives that back.
    fn refuse<B>(&mut self, refused: Refused, format: RefusalFormat) -> ResponseFuture<S, B, St>
    where
        S: Service<Request<B>>,
    {
        self.inner = self.inner.clone();
        ResponseFuture::refused(refused, format)
    }
}
