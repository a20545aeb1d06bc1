//! Reads a request and prices it before it is sent.

mod fast;
mod future;
mod judge;
mod layer;
mod memory;
mod own_counts;
mod reading;
mod rejection;
mod service;

pub use future::EstimateFuture;
pub use layer::{EstimateLayer, Unpriced};
pub use service::Estimator;
