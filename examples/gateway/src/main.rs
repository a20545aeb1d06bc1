//! `gateway [--listen ADDR] [--config FILE] [--shutdown-limit 30s]`

use clap::Parser;
use gateway::{
    auth::Keys,
    config::Config,
    demo,
    linger::Lingering,
    routes::{Gateway, Models, Usage},
    server, stack, terminal,
};
use http::Request;
use hyper::body::Incoming;
use std::{
    convert::Infallible, error::Error, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;
use tower_ai_budget::{Ledger, MemoryLedger};

/// What the ledger gets to write what is still under way. In memory there is nothing to wait for.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// An OpenAI- and Anthropic-compatible gateway with limits, budgets and failover.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// What to serve (see gateway.toml). Without it: simulated upstreams and demo keys.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How long requests under way may take to end after SIGTERM or Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    shutdown_limit: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    terminal::init();
    match run(args).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(left) => {
            eprintln!("gateway: {left} reservations were not settled; their leases will end them");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("gateway: {error}");
            ExitCode::from(2)
        }
    }
}

/// Serves until told to stop; the number of reservations that could not be settled.
async fn run(args: Args) -> Result<usize, Box<dyn Error>> {
    let config = match &args.config {
        Some(file) => Config::read(file)?,
        None => demo::start().await?,
    };
    let ledger = MemoryLedger::new();
    let budgets = stack::budgets(&config, &ledger)?;
    let gateway = Arc::new(Gateway::new(
        Keys::of(&config)?,
        stack::governed(&config, budgets.clone())?,
        Models::of(&config),
        Usage(budgets),
    ));

    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    greet(listener.local_addr()?, args.config.is_none());

    let app = tower::service_fn(move |request: Request<Incoming>| {
        let gateway = gateway.clone();
        async move { Ok::<_, Infallible>(gateway.answer(request.map(Lingering::new)).await) }
    });
    server::serve(listener, app, server::stop_signal(), args.shutdown_limit).await;
    Ok(ledger.drain(DRAIN_LIMIT).await.left)
}

/// The address comes first and alone on its line, for programs that start the gateway and read it.
fn greet(address: SocketAddr, demo: bool) {
    println!("listening on http://{address}");
    let (key, model) = if demo {
        (demo::KEYS[0], "demo-silent")
    } else {
        ("$KEY", "$MODEL")
    };
    if demo {
        for key in demo::KEYS {
            println!("key: {key}");
        }
    }
    println!(
        "curl -i http://{address}/v1/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: \
         application/json' -d '{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'"
    );
}

/// `30s`, `500ms`, `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "write a whole number and a unit, such as 30s".to_owned())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err("the units are ms, s and m".to_owned()),
    }
}
