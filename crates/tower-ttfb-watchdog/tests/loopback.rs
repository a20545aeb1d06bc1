//! Real sockets and hyper's own client, which tells nothing of the wire.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{
    io::ErrorKind,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    time::timeout,
};
use tower::{Layer, ServiceExt};
use tower_ai_core::{FirstByte, Silence};
use tower_ttfb_watchdog::{RequestBody, TtfbWatchdog, TtfbWatchdogLayer};

const MS: Duration = Duration::from_millis(1);
/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_secs(2);

type Hyper = Client<HttpConnector, RequestBody<Full<Bytes>>>;

fn watched(layer: TtfbWatchdogLayer) -> TtfbWatchdog<Hyper> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_send_buffer_size(Some(64 * 1024)); // what is in there counts as written
    layer.layer(Client::builder(TokioExecutor::new()).build(connector))
}

fn post(to: SocketAddr, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(format!("http://{to}/v1/chat/completions"))
        .body(Full::new(body.into()))
        .unwrap()
}

/// Reads what is there, or waits for it; 0 at the end.
async fn read(socket: &TcpStream, buffer: &mut [u8]) -> usize {
    loop {
        socket.readable().await.unwrap();
        match socket.try_read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return 0,
            read => return read.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_and_its_connection_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, is_closed) = oneshot::channel();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        while read(&socket, &mut [0; 4096]).await > 0 {}
        closed.send(Instant::now()).unwrap();
    });

    let start = Instant::now();
    let response = watched(TtfbWatchdogLayer::new())
        .oneshot(post(address, "{}"))
        .await
        .unwrap();
    let answered = Instant::now();

    assert_eq!(response.status(), 504);
    assert_eq!(
        response.extensions().get::<Silence>().unwrap().to_string(),
        "ttfb-50ms"
    );
    assert!(start.elapsed() >= 50 * MS, "too early: {:?}", start.elapsed());
    assert!(
        start.elapsed() < 50 * MS + SLACK,
        "too late: {:?}",
        start.elapsed()
    );
    let closed = timeout(SLACK, is_closed)
        .await
        .expect("the connection stays open")
        .unwrap();
    println!(
        "answered after {:?}, closed {:?} later",
        answered - start,
        closed.saturating_duration_since(answered)
    );
}

/// One frame of 16 MiB: hyper would take it whole at once, and "the last frame was taken" would be a lie.
#[tokio::test]
async fn a_large_upload_into_a_slow_reader_is_not_given_up() {
    const SIZE: usize = 16 * 1024 * 1024;
    const PAUSES: usize = 16;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let (mut taken, mut buffer) = (0, vec![0; 64 * 1024]);
        while taken < SIZE {
            let before = taken / (SIZE / PAUSES);
            taken += read(&socket, &mut buffer).await;
            if taken / (SIZE / PAUSES) > before && taken < SIZE {
                tokio::time::sleep(100 * MS).await;
            }
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        socket.writable().await.unwrap();
        assert_eq!(socket.try_write(answer).unwrap(), answer.len());
        while read(&socket, &mut buffer).await > 0 {}
    });

    let start = Instant::now();
    let limit = 500 * MS;
    let response = watched(TtfbWatchdogLayer::new().first_byte(limit))
        .oneshot(post(address, vec![b'x'; SIZE]))
        .await
        .unwrap();

    assert_eq!(response.status(), 200, "{:?}", response.extensions());
    assert!(
        start.elapsed() > 2 * limit,
        "the reader was not slow: {:?}",
        start.elapsed()
    );
    let FirstByte(after) = *response.extensions().get().unwrap();
    assert!(after < limit);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    println!(
        "uploaded in {:?}, first byte {after:?} after it was written",
        start.elapsed()
    );
}
