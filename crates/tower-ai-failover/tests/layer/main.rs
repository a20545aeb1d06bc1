//! The layer over scripted upstreams, in paused time.
#![allow(clippy::unwrap_used, reason = "a test fails where it must")]

mod classification;
mod contract;
mod dispatch;
mod exhausted;
mod stream;
mod support;
#[cfg(feature = "metrics")]
mod telemetry;
