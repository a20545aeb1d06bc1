//! One dispatch.

use crate::{
    FailoverBody,
    layer::Settings,
    prepare::{is_grpc, prepare},
    routes::Candidates,
};
use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Instant;
use tower_ai_core::{
    AiCall, Attempt, BoxError, Buffered, Buffering, Call, Deadline, LayerKind, Refusable, Refusal,
    RefusalFormat, RefusalKind, RefusedBy, Scope, ServedBy,
};
use tower_ai_wire::{operation, read_request};
use tower_service::Service;

pin_project! {
    /// The answer to one call.
    pub struct ResponseFuture<S, B, RB>
    where
        S: Service<Request<Buffered<B>>, Response = Response<RB>>,
    {
        #[pin]
        state: State<S, S::Future, B>,
        inner: S,
        parts: Parts,
        call: Call,
        format: RefusalFormat,
        body: Option<Buffered<B>>,
        candidates: Option<Candidates>,
        next: usize,
        settings: Arc<Settings>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, B> {
        Admit { buffering: Buffering<B> },
        Ready { service: S },
        Call { #[pin] future: F },
    }
}

impl<S, B, RB> ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>>,
    B: Body<Data = Bytes> + Unpin,
{
    pub(crate) fn new(inner: S, request: Request<B>, settings: Arc<Settings>) -> Self {
        let (mut parts, body) = request.into_parts();
        let call = Call::of(&mut parts.extensions);
        call.enter(LayerKind::Failover);
        let deadline = Instant::now() + settings.deadline;
        call.deadline_or(|| Deadline(deadline.into_std()));
        let limit = if is_grpc(&parts.headers) {
            0
        } else {
            settings.replay_limit
        };
        Self {
            state: State::Admit {
                buffering: Buffering::new(body, limit),
            },
            inner,
            format: RefusalFormat::of(&parts),
            parts,
            call,
            body: None,
            candidates: None,
            next: 0,
            settings,
        }
    }
}

impl<S, B, RB> Future for ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    RB: Body<Data = Bytes>,
    RB::Error: Into<BoxError>,
{
    type Output = Result<Response<Refusable<FailoverBody<RB>>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let refuse = |refusal: Refusal, format| Poll::Ready(Ok(refusal.into_response(format)));
        loop {
            match this.state.as_mut().project() {
                StateProj::Admit { buffering } => {
                    let Ok(body) = ready!(buffering.poll(cx)) else {
                        let message = "the request's body could not be read";
                        let refusal = Refusal::new(
                            LayerKind::Failover,
                            RefusalKind::InvalidRequest,
                            "invalid_request",
                            message,
                        );
                        return refuse(refusal, *this.format);
                    };
                    let operation = operation(&this.parts.method, this.parts.uri.path());
                    if let (None, Some(operation), Some(bytes)) = (this.call.ai(), operation, body.bytes())
                        && let Ok(read) = read_request(operation, bytes)
                    {
                        this.call.set_ai(
                            AiCall::new(operation, read.model)
                                .stream(read.stream)
                                .usage_asked(read.usage_asked),
                        );
                    }
                    let candidates = match this.call.ai() {
                        Some(ai) => this.settings.table.for_model(Some(&ai.model), ai.dialect()),
                        None => this.settings.table.for_any(this.format.dialect()),
                    };
                    let Some(candidates) = candidates else {
                        let message = "no upstream serves this model";
                        let refusal = Refusal::new(
                            LayerKind::Failover,
                            RefusalKind::NotFound,
                            "model_not_found",
                            message,
                        );
                        return refuse(refusal, *this.format);
                    };
                    *this.candidates = Some(candidates);
                    *this.body = Some(body);
                    this.state.set(State::Ready {
                        service: this.inner.clone(),
                    });
                }
                StateProj::Ready { service } => {
                    let _ = ready!(service.poll_ready(cx));
                    let candidate = this.candidates.as_ref().and_then(|all| all.get(*this.next));
                    let (Some(candidate), Some(body)) = (candidate, this.body.take()) else {
                        let message = "all upstreams exhausted";
                        let refusal = Refusal::new(
                            LayerKind::Failover,
                            RefusalKind::Unavailable,
                            "all_upstreams_exhausted",
                            message,
                        )
                        .retry_after(Duration::from_secs(1));
                        return refuse(refusal, *this.format);
                    };
                    *this.next += 1;
                    let body = match body.bytes().cloned() {
                        Some(bytes) => {
                            *this.body = Some(Buffered::whole(bytes.clone()));
                            Buffered::whole(bytes)
                        }
                        None => body,
                    };
                    let ai = this.call.ai().map(|ai| ai.operation);
                    let Ok(mut request) = prepare(candidate, this.parts, ai, body) else {
                        continue;
                    };
                    let mut attempt =
                        Attempt::new(*this.next as u32, candidate.id.clone(), Duration::from_secs(150));
                    attempt.region = candidate.region.clone();
                    attempt.first_byte = candidate.first_byte;
                    attempt.provider = candidate.provider.clone();
                    attempt.priced_as = candidate.priced_as.clone();
                    request.extensions_mut().insert(attempt);
                    this.call.meter().sent(*this.next as u32);
                    let future = service.call(request);
                    this.state.set(State::Call { future });
                }
                StateProj::Call { future } => {
                    if let Ok(mut response) = ready!(future.poll(cx)) {
                        let refused = response.extensions().get::<RefusedBy>().map(|by| by.scope);
                        let status = response.status();
                        let failed = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
                        if refused == Some(Scope::Caller) || refused.is_none() && !failed {
                            let candidate =
                                &this.candidates.as_ref().expect("a call has candidates")[*this.next - 1];
                            this.call.meter().served(*this.next as u32);
                            response.extensions_mut().insert(ServedBy {
                                candidate: candidate.id.clone(),
                                region: candidate.region.clone(),
                                attempt: *this.next as u32,
                            });
                            return Poll::Ready(Ok(
                                response.map(|body| Refusable::inner(FailoverBody::new(body)))
                            ));
                        }
                    }
                    this.state.set(State::Ready {
                        service: this.inner.clone(),
                    });
                }
            }
        }
    }
}

impl<S, B, RB> fmt::Debug for ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("attempt", &self.next)
            .finish_non_exhaustive()
    }
}
