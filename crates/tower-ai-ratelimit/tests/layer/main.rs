//! The layer as its users see it.
#![allow(clippy::unwrap_used)] // a test fails so

mod answers;
mod bursts;
mod events;
mod metrics;
mod stores;
mod support;
mod tokens;
