//! What answers which request.

mod pages;
mod request_id;

pub use pages::{Models, Usage};

use crate::auth::Keys;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body::Body;
use request_id::RequestIds;
use std::{convert::Infallible, time::Duration};
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_ai_core::{
    Deadline, FailoverTrace, LayerKind, Refusable, Refusal, RefusalFormat, RefusalKind, ServedBy,
};
use tracing::Instrument;

/// When every call has to be over, its stream included.
const DEADLINE: Duration = Duration::from_secs(540);

/// The gateway: the governed stack, and the pages around it.
#[derive(Debug)]
pub struct Gateway<S> {
    keys: Keys,
    governed: S,
    models: Models,
    usage: Usage,
    ids: RequestIds,
}

impl<S> Gateway<S> {
    /// Lets callers with `keys` in to the governed stack and the pages.
    pub fn new(keys: Keys, governed: S, models: Models, usage: Usage) -> Self {
        Self {
            keys,
            governed,
            models,
            usage,
            ids: RequestIds::new(),
        }
    }

    /// Answers a request. Every answer carries an id, for the caller to name it and for us to find it in the log.
    pub async fn answer<B, R>(&self, request: Request<B>) -> Response<Refusable<R>>
    where
        S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone,
        R: Body<Data = Bytes>,
    {
        let id = self.ids.next();
        let span = tracing::info_span!("request", %id);
        let mut response = self.route(request).instrument(span).await;
        tell_who_served(&mut response);
        let id = HeaderValue::try_from(id).expect("letters, digits and underscores are valid in a header");
        let headers = response.headers_mut();
        headers.insert("x-request-id", id.clone()); // where OpenAI's SDKs look
        headers.insert("request-id", id); // where Anthropic's do
        response
    }

    async fn route<B, R>(&self, request: Request<B>) -> Response<Refusable<R>>
    where
        S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone,
        R: Body<Data = Bytes>,
    {
        let (mut parts, body) = request.into_parts();
        let format = RefusalFormat::of(&parts);
        if (&parts.method, parts.uri.path()) == (&Method::GET, "/healthz") {
            return pages::health();
        }
        let caller = match self.keys.caller(&parts) {
            Ok(caller) => caller,
            Err(error) => return Refusal::from(error).into_response(format),
        };
        match (&parts.method, parts.uri.path()) {
            (&Method::POST, "/v1/chat/completions" | "/v1/messages") => {
                let deadline = Deadline((Instant::now() + DEADLINE).into_std());
                parts.extensions.insert(caller.clone());
                parts.extensions.insert(deadline);
                let call = self.governed.clone().oneshot(Request::from_parts(parts, body));
                let Ok(response) = call.await;
                response.map(Refusable::inner)
            }
            (&Method::GET, "/v1/models") => self.models.page(format.dialect()),
            (&Method::GET, "/v1/usage") => self.usage.page(caller, format).await,
            (method, path) => {
                let message = format!("there is nothing at {method} {path}");
                let refusal = Refusal::new(LayerKind::Host, RefusalKind::NotFound, "not_found", message);
                refusal.into_response(format)
            }
        }
    }
}

/// What failover leaves in the response's extensions, for the caller to see.
fn tell_who_served<R>(response: &mut Response<R>) {
    let facts = response.extensions();
    let served_by = facts
        .get::<ServedBy>()
        .and_then(|by| HeaderValue::from_str(&by.candidate).ok());
    let attempts = facts.get::<FailoverTrace>().map(|trace| trace.0.len());
    if let Some(candidate) = served_by {
        response.headers_mut().insert("x-served-by", candidate);
    }
    if let Some(attempts) = attempts {
        response.headers_mut().insert("x-attempts", attempts.into());
    }
}
