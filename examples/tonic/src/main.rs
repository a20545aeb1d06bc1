//! The tower-ai layers around a tonic service, on the server side and on the client side.
//!
//! The service is a hand-written `Echo` (one unary method that returns its bytes), so that the example needs no
//! protoc; generated services and clients stack in the same way.
//!
//! ```sh
//! cargo run -p example-tonic
//! ```

mod client;
mod echo;
mod server;

use tokio::net::TcpListener;

/// Starts a limited server and a dead address, then calls through the client's failover.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let live = format!("http://{}", listener.local_addr()?);
    tokio::spawn(server::serve(listener));

    let mut echo = client::failing_over("http://127.0.0.1:9", &live)?;
    for n in 1..=22 {
        match echo.echo("hello").await {
            Ok(text) => println!("{n}: {text}"),
            Err(status) => println!("{n}: {:?}: {}", status.code(), status.message()),
        }
    }
    Ok(())
}
