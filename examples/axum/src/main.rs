//! The tower-ai layers in an existing axum app: three small uses, each useful alone, and the whole stack.
//!
//! ```sh
//! cargo run -p example-axum
//! curl -i localhost:3000/api/ai/summarize -H 'x-user: ann' -d 'a long text'
//! ```

mod app;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    tracing_subscriber::fmt().init();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app::app("http://127.0.0.1:8080/v1")?).await?;
    Ok(())
}
