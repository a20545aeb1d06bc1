//! The faulty upstream is faulty in the way it was told, and sees what its clients do.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{
    future::Future,
    time::{Duration, Instant},
};
use testkit::{Cut, FaultUpstream, Gate, RefusedPort, Reply, Sample, ScriptedBody, openai};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Long enough to call it silence.
const MOMENT: Duration = Duration::from_millis(100);

async fn connect(upstream: &FaultUpstream) -> TcpStream {
    TcpStream::connect(upstream.addr())
        .await
        .expect("the upstream listens")
}

fn post(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("/v1/chat/completions?trace=1")
        .header("host", "upstream")
        .header("x-attempt", "a1")
        .body(Full::from(body))
        .expect("a request")
}

type Call = Result<Response<Incoming>, hyper::Error>;

/// One request on a connection of its own. Dropping the future closes the connection.
async fn call(upstream: &FaultUpstream, request: Request<Full<Bytes>>) -> Call {
    let (mut sender, connection) = conn::http1::handshake(TokioIo::new(connect(upstream).await)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

async fn is_silent<T>(future: impl Future<Output = T>) -> bool {
    timeout(MOMENT, future).await.is_err()
}

#[tokio::test]
async fn replies_follow_the_script_and_the_last_one_repeats() {
    let upstream = FaultUpstream::start([
        openai::rate_limited(2),
        openai::Chat::new(["hi"]).completion(),
        openai::Chat::new(["hi"]).stream(),
    ]);
    let (mut sender, connection) = conn::http1::handshake(TokioIo::new(connect(&upstream).await))
        .await
        .expect("a handshake");
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..4 {
        let response = sender
            .send_request(post("{}"))
            .await
            .expect("an answer on the same connection");
        let (parts, body) = response.into_parts();
        answers.push((parts.status, body.collect().await.expect("a body").to_bytes()));
    }
    assert_eq!(
        answers[0],
        (StatusCode::TOO_MANY_REQUESTS, openai::rate_limited(2).bytes())
    );
    assert_eq!(
        answers[1],
        (StatusCode::OK, openai::Chat::new(["hi"]).completion().bytes())
    );
    assert_eq!(
        answers[2],
        (StatusCode::OK, openai::Chat::new(["hi"]).stream().bytes())
    );
    assert_eq!(answers[3], answers[2]);
    assert!(upstream.requests().iter().all(|request| request.connection == 0));
    assert_eq!((upstream.count(), upstream.cancelled()), (4, 0));
}

#[tokio::test]
async fn a_request_is_logged_as_it_came() {
    let upstream = FaultUpstream::start([Sample::json(200, "{}")]);
    call(&upstream, post(r#"{"model":"gpt-5"}"#))
        .await
        .expect("an answer");
    let request = upstream.request(0);
    assert_eq!(
        (request.method.as_str(), &request.path[..]),
        ("POST", "/v1/chat/completions?trace=1")
    );
    assert_eq!(request.headers["x-attempt"], "a1");
    assert_eq!(
        (&request.body[..], request.body_bytes),
        (&br#"{"model":"gpt-5"}"#[..], 17)
    );
    assert!(request.finished_at.expect("it was answered") >= request.arrived_at);
}

#[tokio::test]
async fn a_chunked_request_is_logged_without_its_framing() {
    let upstream = FaultUpstream::start([Sample::json(200, "{}")]);
    let (mut sender, connection) = conn::http1::handshake(TokioIo::new(connect(&upstream).await))
        .await
        .expect("a handshake");
    tokio::spawn(connection);
    let body = ScriptedBody::of(["one ", "two"]).pending().data(" three");
    sender
        .send_request(
            Request::post("/")
                .header("host", "u")
                .body(body)
                .expect("a request"),
        )
        .await
        .expect("an answer");
    assert_eq!(upstream.request(0).headers["transfer-encoding"], "chunked");
    assert_eq!(upstream.request(0).body, "one two three");
}

#[tokio::test]
async fn silence_is_silent_and_its_end_is_seen() {
    let replies = [
        (Reply::AcceptSilent, "", 0),
        (Reply::ReadHeadSilent, "POST", 0),
        (Reply::ReadSilent, "POST", 2),
        (Reply::HeadersSilent, "POST", 2),
        (Reply::InformationalSilent(103), "POST", 2),
    ];
    for (reply, method, read) in replies {
        let case = format!("{reply:?}");
        let upstream = FaultUpstream::start([reply]);
        let mut client = connect(&upstream).await;
        client
            .write_all(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            .await
            .expect("the kernel takes it");
        upstream.wait_for_requests(1).await;
        let mut answer = Vec::new();
        assert!(
            is_silent(client.read_to_end(&mut answer)).await,
            "{case}: it is closed"
        );
        let expects_head = matches!(&case[..], "HeadersSilent" | "InformationalSilent(103)");
        assert_eq!(!answer.is_empty(), expects_head, "{case}");

        let request = upstream.request(0);
        assert_eq!((request.body_bytes, request.cancelled_at), (read, None), "{case}");
        assert_eq!(method.is_empty(), request.path.is_empty(), "{case}");
        let dropped = Instant::now();
        drop(client);
        let late = upstream.wait_for_cancel(0).await.duration_since(dropped);
        assert!(
            late < Duration::from_secs(1),
            "{case}: the cancel was seen after {late:?}"
        );
    }
}

#[tokio::test]
async fn the_cancel_of_a_stream_that_flows_is_seen() {
    let upstream = FaultUpstream::start([Reply::stream(Duration::from_millis(2), ["data: tick\n\n"; 1000])]);
    let response = call(&upstream, post("{}")).await.expect("a head");
    let mut body = response.into_body();
    body.frame().await.expect("a frame").expect("data");
    drop(body);
    upstream.wait_for_cancel(0).await;
    assert_eq!(upstream.cancelled(), 1);
    assert!(upstream.request(0).finished_at.is_none());
}

#[tokio::test]
async fn a_stream_then_silent_sends_all_it_has() {
    let chunks = ["data: 1\n\n", "data: 2\n\n"];
    let upstream = FaultUpstream::start([Reply::stream_then_silent(chunks)]);
    let mut body = call(&upstream, post("{}")).await.expect("a head").into_body();
    for chunk in chunks {
        assert_eq!(
            body.frame()
                .await
                .expect("a frame")
                .expect("data")
                .into_data()
                .expect("data"),
            chunk
        );
    }
    assert!(is_silent(body.frame()).await);
}

#[tokio::test]
async fn each_cut_breaks_off_as_told() {
    for cut in [Cut::Fin, Cut::Rst, Cut::NoFinalChunk, Cut::CloseDelimited] {
        let upstream = FaultUpstream::start([Reply::stream_then_cut(["data: 1\n\n"], cut)]);
        let response = call(&upstream, post("{}")).await;
        let whole = match response {
            Ok(response) => response.into_body().collect().await.map(|body| body.to_bytes()),
            Err(error) if cut == Cut::Rst => Err(error), // a reset may overtake what was sent before it
            Err(error) => panic!("{cut:?}: no head: {error}"),
        };
        match cut {
            Cut::CloseDelimited => assert_eq!(whole.expect("a proper end"), "data: 1\n\n"),
            _ => assert!(whole.is_err(), "{cut:?}: it looks whole"),
        }
        assert_eq!(
            upstream.cancelled(),
            0,
            "{cut:?}: it was the upstream who broke off"
        );
    }
}

#[tokio::test]
async fn answers_that_are_no_answers_fail_at_the_client() {
    let short = Reply::ShortContentLength {
        body: Bytes::from_static(b"{"),
        missing: 9,
    };
    let upstream = FaultUpstream::start([short, Reply::Garbage, Reply::CloseAtOnce]);
    let response = call(&upstream, post("{}")).await.expect("a head");
    assert!(
        response.into_body().collect().await.is_err(),
        "9 bytes are missing"
    );
    assert!(call(&upstream, post("{}")).await.expect_err("garbage").is_parse());
    assert!(call(&upstream, post("{}")).await.is_err(), "closed at once");
    let error = TcpStream::connect(RefusedPort::new().addr())
        .await
        .expect_err("nobody listens");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn an_early_status_comes_before_the_upload_is_over() {
    let upstream = FaultUpstream::start([Reply::EarlyStatus(Sample::json(413, "{}"))]);
    let mut client = connect(&upstream).await;
    client
        .write_all(b"POST / HTTP/1.1\r\ncontent-length: 8388608\r\n\r\n")
        .await
        .expect("taken");
    let mut head = [0; 12];
    client.read_exact(&mut head).await.expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 413");
    for _ in 0..128 {
        client
            .write_all(&[b' '; 65536])
            .await
            .expect("the rest of the upload is taken");
    }
}

#[tokio::test]
async fn an_upload_that_nobody_reads_stalls() {
    let upstream = FaultUpstream::start([Reply::ReadHeadSilent]);
    let mut client = connect(&upstream).await;
    client
        .write_all(b"POST / HTTP/1.1\r\ncontent-length: 67108864\r\n\r\n")
        .await
        .expect("taken");
    assert!(is_silent(client.write_all(&vec![b' '; 67_108_864])).await);
    assert_eq!(upstream.request(0).body_bytes, 0);
    client.set_zero_linger().expect("the option is taken");
    drop(client); // a FIN would wait behind the bytes that nobody reads; a RST does not
    upstream.wait_for_cancel(0).await;
}

#[tokio::test]
async fn a_slow_reader_reads_slowly() {
    let slow = Reply::from(Sample::json(200, "{}")).slowly(4, Duration::from_millis(5));
    let upstream = FaultUpstream::start([slow]);
    let started = Instant::now();
    call(&upstream, post("a body of 20 bytes.."))
        .await
        .expect("an answer");
    assert!(started.elapsed() >= Duration::from_millis(25));
    assert_eq!(upstream.request(0).body, "a body of 20 bytes..");
}

#[tokio::test]
async fn nothing_passes_a_gate_before_it_is_open() {
    let gate = Gate::default();
    let upstream = FaultUpstream::start([Reply::from(Sample::json(200, "{}")).behind(&gate)]);
    let calls = async { tokio::join!(call(&upstream, post("1")), call(&upstream, post("2"))) };
    tokio::pin!(calls);
    assert!(is_silent(&mut calls).await);
    upstream.wait_for_requests(2).await;
    gate.open();
    let (first, second) = calls.await;
    assert!(first.is_ok() && second.is_ok());
    assert!(call(&upstream, post("3")).await.is_ok(), "it stays open");
}

#[tokio::test]
async fn a_reply_may_depend_on_the_request() {
    let chat = openai::Chat::new(["hi"]);
    let expected = chat.clone().model("gpt-5-mini").stream().bytes();
    let upstream = FaultUpstream::start([Reply::by(move |request| chat.clone().answering(&request.body))]);
    let response = call(&upstream, post(r#"{"model":"gpt-5-mini","stream":true}"#))
        .await
        .expect("a head");
    assert_eq!(
        response.headers()["content-type"],
        "text/event-stream; charset=utf-8"
    );
    assert_eq!(
        response.into_body().collect().await.expect("a body").to_bytes(),
        expected
    );
}

#[tokio::test]
async fn http_2_follows_the_same_script() {
    let stream = openai::Chat::new(["Hel", "lo"]).stream();
    let upstream = FaultUpstream::start([
        Reply::from(stream.clone()),
        Reply::from(openai::server_error()),
        Reply::stream_then_cut(["data: 1\n\n"], Cut::Rst),
        Reply::Garbage,
        Reply::ReadSilent,
    ]);
    let io = TokioIo::new(connect(&upstream).await);
    let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .expect("a handshake");
    tokio::spawn(connection);
    let mut send = |body| {
        let request = Request::post("http://upstream/v1/x")
            .body(Full::<Bytes>::from(body))
            .expect("a request");
        sender.send_request(request)
    };

    let response = send("first").await.expect("an answer");
    assert_eq!(
        response.into_body().collect().await.expect("a body").to_bytes(),
        stream.bytes()
    );
    assert_eq!(
        (upstream.request(0).path, upstream.request(0).body),
        ("/v1/x".into(), "first".into())
    );
    assert_eq!(send("second").await.expect("an answer").status(), 500);
    let mut cut = send("third").await.expect("a head").into_body();
    assert!(cut.frame().await.expect("a frame").is_ok());
    assert!(cut.frame().await.expect("a reset").is_err());
    assert!(send("fourth").await.is_err());
    assert!(is_silent(send("fifth")).await);
    upstream.wait_for_cancel(4).await;
    assert_eq!(upstream.cancelled(), 1);
}

#[tokio::test]
async fn an_upstream_that_is_dropped_is_gone() {
    let upstream = FaultUpstream::start([Reply::ReadSilent]);
    let addr = upstream.addr();
    let mut client = connect(&upstream).await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("taken");
    upstream.wait_for_requests(1).await;
    drop(upstream);
    assert_eq!(client.read(&mut [0]).await.expect("an end"), 0);
    assert!(TcpStream::connect(addr).await.is_err());
}
