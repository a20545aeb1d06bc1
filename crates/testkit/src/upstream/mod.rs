//! A real server on loopback that answers as it is told, also in ways that no server should.

mod gate;
mod http1;
mod http2;
mod log;
mod plan;
mod read;
mod refused;
mod reply;

pub use gate::Gate;
pub use log::UpstreamRequest;
pub use refused::RefusedPort;
pub use reply::{Cut, Decision, Reply};

use log::Log;
use std::{
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    time::timeout,
};

/// How much of an upload the kernel takes for an upstream that does not read.
const RECEIVE_BUFFER_BYTES: u32 = 64 * 1024;
/// How long a test waits for what it expects of the upstream.
const PATIENCE: Duration = Duration::from_secs(10);

/// An upstream that follows a script: the first request gets the first reply and so on; the last reply repeats.
///
/// It speaks HTTP/1.1, and HTTP/2 (with prior knowledge) to those who begin so. It runs on a thread of its own, so
/// that its timestamps do not depend on how busy the test is, and stops when it is dropped. The test's own time must
/// not be paused: sockets know nothing of it.
///
/// ```no_run
/// use testkit::{FaultUpstream, Gate, Reply, openai};
///
/// # async fn example() {
/// let gate = Gate::default();
/// let upstream = FaultUpstream::start([
///     Reply::ReadSilent,
///     Reply::from(openai::rate_limited(2)),
///     Reply::from(openai::Chat::new(["Hel", "lo"]).stream()).behind(&gate),
/// ]);
/// // … send requests to upstream.url() …
/// gate.open();
/// let after = upstream.wait_for_cancel(0).await - upstream.request(0).arrived_at;
/// # }
/// ```
#[derive(Debug)]
pub struct FaultUpstream {
    addr: SocketAddr,
    log: Arc<Log>,
    /// Dropped first: it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultUpstream {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no reply in the script, or no port.
    pub fn start<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        let log = Arc::new(Log::new(replies));
        let (stop, stopped) = oneshot::channel();
        let (listening, listens) = std::sync::mpsc::channel();
        let kept = log.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime of one thread");
            runtime.block_on(async {
                let listener = listen();
                let _ = listening.send(listener.local_addr().expect("a bound socket has an address"));
                tokio::select! {
                    () = accept(listener, kept) => {}
                    _ = stopped => {}
                }
            });
        });
        let addr = listens.recv().expect("the upstream listens");
        Self {
            addr,
            log,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`, with no path.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// All requests so far, in the order in which their first byte came.
    pub fn requests(&self) -> Vec<UpstreamRequest> {
        self.log.requests()
    }

    /// How many requests there were so far.
    pub fn count(&self) -> usize {
        self.log.requests().len()
    }

    /// How many of them the client gave up.
    pub fn cancelled(&self) -> usize {
        self.log
            .requests()
            .iter()
            .filter(|request| request.cancelled_at.is_some())
            .count()
    }

    /// The request with this index, from 0.
    ///
    /// # Panics
    /// When it has not come.
    pub fn request(&self, index: usize) -> UpstreamRequest {
        let mut requests = self.log.requests();
        assert!(
            index < requests.len(),
            "request {index} has not come; there are {}",
            requests.len()
        );
        requests.swap_remove(index)
    }

    /// Waits until this many requests were read, each as far as its reply wants.
    ///
    /// # Panics
    /// When that takes longer than 10 s.
    pub async fn wait_for_requests(&self, count: usize) {
        let enough = |requests: &[UpstreamRequest]| {
            (requests.iter().filter(|request| request.is_read).count() >= count).then_some(())
        };
        self.wait_for(&format!("{count} requests"), enough).await;
    }

    /// Waits until the client gives up this request, and tells when the FIN, RST or stream reset was seen.
    ///
    /// A FIN comes after the bytes before it: of an upload that is not read and larger than the buffers, none is seen.
    ///
    /// # Panics
    /// When that takes longer than 10 s.
    pub async fn wait_for_cancel(&self, index: usize) -> Instant {
        let cancelled = |requests: &[UpstreamRequest]| requests.get(index)?.cancelled_at;
        self.wait_for(&format!("the cancel of request {index}"), cancelled)
            .await
    }

    async fn wait_for<T>(&self, what: &str, found: impl Fn(&[UpstreamRequest]) -> Option<T>) -> T {
        match timeout(PATIENCE, self.log.wait_for(found)).await {
            Ok(found) => found,
            Err(_) => panic!(
                "{what} did not come within {PATIENCE:?}; the log: {:#?}",
                self.requests()
            ),
        }
    }
}

impl Drop for FaultUpstream {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of the upstream was printed; the test's own failure says more
        }
    }
}

fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .set_recv_buffer_size(RECEIVE_BUFFER_BYTES)
        .expect("a receive buffer");
    socket
        .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("a free port of 127.0.0.1");
    socket.listen(1024).expect("a listening socket")
}

async fn accept(listener: TcpListener, log: Arc<Log>) {
    for connection in 0.. {
        if let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream, connection, log.clone()));
        }
    }
}

async fn serve(stream: TcpStream, connection: usize, log: Arc<Log>) {
    if http2::is_preface(&stream).await {
        http2::serve(stream, connection, log).await;
    } else {
        http1::serve(stream, connection, log).await;
    }
}
