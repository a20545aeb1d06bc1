//! The service: always ready, one dispatch for each call.

use crate::{FailoverBody, ResponseFuture, layer::Settings};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};
use tower_ai_core::{BoxError, Buffered, Refusable};
use tower_service::Service;

/// Sends each call to its candidates in turn, until one answers.
#[derive(Clone, Debug)]
pub struct Failover<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Failover<S> {
    pub(crate) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

impl<S, B, RB> Service<Request<B>> for Failover<S>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    RB: Body<Data = Bytes>,
    RB::Error: Into<BoxError>,
{
    type Response = Response<Refusable<FailoverBody<RB>>>;
    type Error = Infallible;
    type Future = ResponseFuture<S, B, RB>;

    /// Always: each candidate's readiness is driven by the call's own future, so that one dead candidate gates nobody.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ResponseFuture::new(self.inner.clone(), request, self.settings.clone())
    }
}
