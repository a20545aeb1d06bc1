use super::{future::EstimateFuture, judge, layer::Settings, reading::Reading};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, header::CONTENT_LENGTH};
use http_body::Body;
use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};
use tower_ai_core::{Buffered, Call, Estimate, LayerKind, Refusable};
use tower_service::Service;

/// The service of [`EstimateLayer`](crate::EstimateLayer).
#[derive(Clone, Debug)]
pub struct Estimator<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Estimator<S> {
    pub(super) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

impl<S, B, R> Service<Request<B>> for Estimator<S>
where
    S: Service<Request<Buffered<B>>, Response = Response<R>> + Clone,
    B: Body<Data = Bytes> + Unpin,
{
    type Response = Response<Refusable<R>>;
    type Error = S::Error;
    type Future = EstimateFuture<S, B, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let Some(subject) = self.settings.rules.subject(&parts) else {
            let call = Call::of(&mut parts.extensions);
            call.enter(LayerKind::Estimate);
            if parts.method.is_safe() {
                call.set_estimate(Estimate::nothing()); // a list of models, say: reading costs no tokens
            }
            let request = Request::from_parts(parts, Buffered::unread(body));
            return EstimateFuture::calling(self.inner.call(request));
        };
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let format = judge::format(&subject, &mut parts);
        match Reading::new(body, content_length(&parts.headers), &self.settings) {
            Ok(reading) => {
                EstimateFuture::reading(reading, inner, parts, subject, format, self.settings.clone())
            }
            Err(rejection) => EstimateFuture::refused(rejection, format),
        }
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
