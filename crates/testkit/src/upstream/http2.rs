//! Plans carried out in HTTP/2, by hyper. What is no HTTP there, such as raw bytes or a FIN, resets the stream.

use super::{
    log::{Entry, Log},
    plan::{Framing, Head, Plan, Reading, Step},
};
use crate::{ScriptError, ScriptedBody};
use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header::CONTENT_LENGTH};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http2::Builder, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{collections::VecDeque, future::pending, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::sleep};
use tower_ai_core::{BodyEnd, OnEnd, TapBody};

/// A reset discards what hyper has not yet written, so it waits a little.
const BEFORE_RESET: Duration = Duration::from_millis(5);

/// Whether the client speaks HTTP/2 from its first byte.
pub(super) async fn is_preface(stream: &TcpStream) -> bool {
    let mut start = [0; 3];
    loop {
        match stream.peek(&mut start).await {
            Ok(3) => return start == *b"PRI",
            Ok(0) | Err(_) => return false,
            Ok(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

pub(super) async fn serve(stream: TcpStream, number: usize, log: Arc<Log>) {
    let service = service_fn(|request| {
        let (reply, entry) = log.begin(number);
        respond(request, Plan::of(reply), entry)
    });
    // Its error is the client's going away, which the entries have noted.
    let _ = Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

type Answered = Response<TapBody<ScriptedBody, Written>>;

async fn respond(request: Request<Incoming>, plan: Plan, entry: Entry) -> Result<Answered, ScriptError> {
    let (parts, mut body) = request.into_parts();
    entry.note(|request| {
        request.method = parts.method;
        request.path = parts
            .uri
            .path_and_query()
            .map_or_else(String::new, ToString::to_string);
        request.headers = parts.headers;
    });
    match plan.reading {
        Reading::Nothing | Reading::Head => {}
        Reading::Whole | Reading::Slowly { .. } => read(&mut body, plan.reading, &entry).await?,
    }
    entry.note(|request| request.is_read = true);

    let mut steps = VecDeque::from(plan.steps);
    while let Some(step) = steps.pop_front() {
        match step {
            Step::Wait(delay) => sleep(delay).await,
            Step::Gate(gate) => gate.passed().await,
            Step::Decide(decision) => steps.extend(Plan::of((decision.0)(&entry.request())).steps),
            Step::Silence => pending().await,
            Step::Head(head) => {
                return Ok(response(head, steps).map(|body| TapBody::new(body, Written(entry))));
            }
            _ => break,
        }
    }
    entry.finish();
    Err(reset())
}

async fn read(body: &mut Incoming, reading: Reading, entry: &Entry) -> Result<(), ScriptError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ScriptError(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data);
        }
        let so_far = read.clone().freeze();
        entry.note(|request| (request.body_bytes, request.body) = (so_far.len(), so_far));
        if let Reading::Slowly { every, .. } = reading {
            sleep(every).await;
        }
    }
    Ok(())
}

fn response(head: Head, steps: impl IntoIterator<Item = Step>) -> Response<ScriptedBody> {
    let mut body = ScriptedBody::new();
    for step in steps {
        body = match step {
            Step::Data(data) => body.data(data),
            Step::Wait(delay) => body.after(delay),
            Step::Silence => body.forever(),
            Step::End => break,
            _ => body.after(BEFORE_RESET).error(reset().0),
        };
    }
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).expect("a status has three digits");
    for (name, value) in head.headers {
        let name: HeaderName = name.parse().expect("a header has a name of HTTP");
        if name != http::header::CONNECTION {
            response
                .headers_mut()
                .append(name, value.parse().expect("a header has a value of HTTP"));
        }
    }
    if let Framing::Length(length) = head.framing {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

fn reset() -> ScriptError {
    ScriptError("the upstream's script resets the stream".into())
}

/// Notes when the response was written; dropped before, the request is cancelled.
struct Written(Entry);

impl OnEnd for Written {
    fn on_end(self, end: BodyEnd) {
        if end != BodyEnd::Dropped {
            self.0.finish();
        }
    }
}
