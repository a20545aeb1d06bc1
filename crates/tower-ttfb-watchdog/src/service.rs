//! The service.

use crate::{RequestBody, ResponseBody, ResponseFuture, layer::Limits, upload::Upload};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::task::{Context, Poll};
use tower_ai_core::{Attempt, BoxError, Call, LayerKind, RefusalFormat};
use tower_service::Service;

/// Gives up on an upstream that is silent: see the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct TtfbWatchdog<S> {
    inner: S,
    limits: Limits,
}

impl<S> TtfbWatchdog<S> {
    pub(crate) fn new(inner: S, limits: Limits) -> Self {
        Self { inner, limits }
    }
}

impl<S, B, R> Service<Request<B>> for TtfbWatchdog<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>>,
    B: Body<Data = Bytes>,
    R: Body<Data = Bytes> + Unpin,
    R::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if let Some(call) = parts.extensions.get::<Call>() {
            call.enter(LayerKind::TtfbWatchdog);
        }
        let of_candidate = parts
            .extensions
            .get::<Attempt>()
            .and_then(|attempt| attempt.first_byte);
        let limits = Limits {
            first_byte: of_candidate.unwrap_or(self.limits.first_byte),
            ..self.limits
        };
        let format = RefusalFormat::of(&parts);

        let upload = Upload::default();
        parts.extensions.insert(upload.phases().clone());
        let request = Request::from_parts(parts, RequestBody::new(body, upload.clone()));
        ResponseFuture::new(self.inner.call(request), upload, limits, format)
    }
}
