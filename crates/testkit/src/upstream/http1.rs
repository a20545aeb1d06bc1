//! Plans carried out in HTTP/1.1, on the bare socket.

use super::{
    log::{Entry, Log},
    plan::{Framing, Head, Plan, Step},
    read::Reader,
};
use bytes::{Bytes, BytesMut};
use std::{collections::VecDeque, fmt::Write, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::TcpStream,
    time::sleep,
};

/// How often a client whose bytes are left unread is asked whether it is still there.
const WATCH_EVERY: Duration = Duration::from_millis(1);

pub(super) async fn serve(stream: TcpStream, number: usize, log: Arc<Log>) {
    let mut connection = Connection {
        stream,
        buffer: BytesMut::new(),
        framing: Framing::Length(0),
    };
    while connection.has_more().await {
        let (reply, entry) = log.begin(number);
        match connection.exchange(Plan::of(reply), &entry).await {
            Ok(Then::Keep) => {}
            Ok(Then::Close) | Err(_) => return, // dropped without `finish`, the entry notes the cancel
        }
    }
}

/// What becomes of a connection after a reply.
#[derive(Clone, Copy)]
enum Then {
    Keep,
    Close,
}

struct Connection {
    stream: TcpStream,
    /// Read, and not yet of any request.
    buffer: BytesMut,
    /// Of the response that is being written.
    framing: Framing,
}

impl Connection {
    /// Waits for the first byte of a request; `false` when the client is gone instead.
    async fn has_more(&self) -> bool {
        !self.buffer.is_empty() || matches!(self.stream.peek(&mut [0]).await, Ok(1..))
    }

    async fn exchange(&mut self, plan: Plan, entry: &Entry) -> io::Result<Then> {
        Reader::new(&mut self.stream, &mut self.buffer)
            .request(plan.reading, entry)
            .await?;
        let mut steps = VecDeque::from(plan.steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Wait(delay) => self.unless_gone(sleep(delay)).await?,
                Step::Gate(gate) => self.unless_gone(gate.passed()).await?,
                Step::Decide(decision) => steps.extend(Plan::of((decision.0)(&entry.request())).steps),
                Step::Head(head) => {
                    self.framing = head.framing;
                    self.write(&head_bytes(&head)).await?;
                }
                Step::Data(data) if self.framing == Framing::Chunked => self.write(&chunk(&data)).await?,
                Step::Data(bytes) | Step::Raw(bytes) => self.write(&bytes).await?,
                Step::End if self.framing == Framing::Chunked => self.write(b"0\r\n\r\n").await?,
                Step::End => {}
                Step::Silence => {
                    self.gone().await;
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Step::Fin => {
                    entry.finish();
                    return Ok(Then::Close);
                }
                Step::Rst => {
                    entry.finish();
                    self.stream.set_zero_linger()?;
                    return Ok(Then::Close);
                }
                Step::Linger => {
                    entry.finish();
                    self.linger().await?;
                    return Ok(Then::Close);
                }
            }
        }
        entry.finish();
        Ok(Then::Keep)
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let write = async {
            while !bytes.is_empty() {
                self.stream.writable().await?;
                match self.stream.try_write(bytes) {
                    Ok(written) => bytes = &bytes[written..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        self.unless_gone(write).await?
    }

    /// Closes our side and takes what still comes, so that what was written is not lost to a reset.
    async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        loop {
            self.buffer.clear();
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn unless_gone<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased; // what is done was done before the client went
            output = work => Ok(output),
            () = self.gone() => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Waits until the client closed or reset the connection. Reads nothing.
    async fn gone(&self) {
        loop {
            match self.stream.peek(&mut [0]).await {
                Ok(1..) => {}
                Ok(_) | Err(_) => return,
            }
            // There are bytes that nobody reads, and behind them the end cannot be peeked at.
            match self.stream.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => sleep(WATCH_EVERY).await,
                Ok(_) | Err(_) => return,
            }
        }
    }
}

fn head_bytes(head: &Head) -> Bytes {
    let mut text = format!("HTTP/1.1 {} \r\n", head.status);
    for (name, value) in &head.headers {
        let _ = write!(text, "{name}: {value}\r\n"); // writing to a string does not fail
    }
    match head.framing {
        Framing::Length(length) => {
            let _ = write!(text, "content-length: {length}\r\n");
        }
        Framing::Chunked => text.push_str("transfer-encoding: chunked\r\n"),
        Framing::UntilClose => {}
    }
    text.push_str("\r\n");
    text.into()
}

/// In one piece, so that one write is one segment. Nothing for no data: an empty chunk is the final one.
fn chunk(data: &[u8]) -> Bytes {
    if data.is_empty() {
        return Bytes::new();
    }
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk.into()
}
