//! The server of the simulated upstreams: one listener, the behaviour is the first part of the path.

use super::answer::{Answer, Paced, error};
use bytes::Bytes;
use http::{
    Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt, Either, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde_json::Value;
use std::{future, io, net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tower_ai_core::Dialect;

/// What `slow` takes to its first byte.
const SLOW: Duration = Duration::from_millis(800);

type Reply = Response<Either<Full<Bytes>, Paced>>;

pub(super) async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                // The error of a connection that broke is its client's to tell.
                let _ = server
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Result<Reply, hyper::Error> {
    let path = request.uri().path().to_owned();
    let dialect = if path.ends_with("/messages") {
        Dialect::Anthropic
    } else {
        Dialect::OpenAi
    };
    let behaviour = path.split('/').nth(1).unwrap_or_default();
    let known = matches!(
        behaviour,
        "fast" | "slow" | "talkative" | "silent" | "failing" | "throttled"
    );
    if request.method() != Method::POST || !known {
        return Ok(whole(
            StatusCode::NOT_FOUND,
            &error(dialect, "not_found_error", "no such path"),
        ));
    }
    let body = request.into_body().collect().await?.to_bytes();
    Ok(match behaviour {
        "silent" => future::pending().await,
        "failing" => {
            let body = error(dialect, "api_error", "simulated failure");
            whole(StatusCode::INTERNAL_SERVER_ERROR, &body)
        }
        "throttled" => {
            let body = error(dialect, "rate_limit_error", "simulated rate limit");
            let mut reply = whole(StatusCode::TOO_MANY_REQUESTS, &body);
            reply.headers_mut().insert(RETRY_AFTER, 2.into());
            reply
        }
        _ => {
            if behaviour == "slow" {
                tokio::time::sleep(SLOW).await;
            }
            match serde_json::from_slice::<Value>(&body) {
                Ok(request) => good(
                    &Answer::to(dialect, behaviour, &request),
                    request["stream"] == true,
                ),
                Err(_) => whole(
                    StatusCode::BAD_REQUEST,
                    &error(dialect, "invalid_request_error", "not JSON"),
                ),
            }
        }
    })
}

fn good(answer: &Answer, stream: bool) -> Reply {
    if !stream {
        return whole(StatusCode::OK, &answer.whole());
    }
    let mut reply = Response::new(Either::Right(answer.stream()));
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
    reply
}

fn whole(status: StatusCode, body: &Value) -> Reply {
    let mut reply = Response::new(Either::Left(Full::from(body.to_string())));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    reply
}
