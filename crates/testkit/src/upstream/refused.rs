//! A port on which nobody listens.

use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// A port that refuses every connection. It is bound, so that no other process gets it meanwhile.
#[derive(Debug)]
pub struct RefusedPort {
    addr: SocketAddr,
    _bound: TcpSocket,
}

impl RefusedPort {
    /// Takes a port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is none.
    #[expect(clippy::new_without_default, reason = "it takes a port: an act, not a value")]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .expect("a free port of 127.0.0.1");
        Self {
            addr: socket.local_addr().expect("a bound socket has an address"),
            _bound: socket,
        }
    }

    /// Where nobody listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`, with no path.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}
