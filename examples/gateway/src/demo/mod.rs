//! Simulated upstreams on loopback, so that the gateway can be tried with nothing else: healthy, slow, silent, failing
//! and throttled, in both dialects.

mod answer;
mod upstream;

use crate::config::Config;
use std::io;

/// One demo key for each reference plan, in the order in which they are printed.
pub const KEYS: [&str; 5] = [
    "sk-demo-free",
    "sk-demo-starter",
    "sk-demo-growth",
    "sk-demo-enterprise",
    "sk-demo-pro",
];

/// Starts the simulated upstreams and gives the configuration that uses them.
///
/// # Errors
/// No port on loopback could be had.
pub async fn start() -> io::Result<Config> {
    let address = upstream::start().await?;
    let file = include_str!("gateway.toml").replace("{demo}", &format!("http://{address}"));
    Config::parse(&file).map_err(io::Error::other)
}
