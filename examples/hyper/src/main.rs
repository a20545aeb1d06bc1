//! The tower-ai layers on bare hyper: a limit around a server's handler, the watchdog around a client.
//!
//! ```sh
//! cargo run -p example-hyper
//! curl -i localhost:3001/
//! ```

mod client;
mod server;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3001").await?;
    println!("listening on http://{}", listener.local_addr()?);
    server::serve(listener, server::limited()?).await?;
    Ok(())
}
