//! Several upstreams for the same model behind one Tower service.

mod admit;
mod answer;
mod backoff;
mod body;
mod by_candidate;
mod classify;
#[cfg(feature = "client")]
mod client;
mod dispatch;
mod events;
mod future;
mod layer;
mod observe;
mod prepare;
mod routes;
mod select;
mod service;
mod share;
mod upstream;

pub use body::{DeadlineExceeded, FailoverBody};
pub use by_candidate::{ByCandidate, ByCandidateFuture, UnknownCandidate};
#[cfg(feature = "client")]
pub use client::{ClientBody, ClientError, ClientFuture, UpstreamClient};
pub use future::ResponseFuture;
pub use layer::FailoverLayer;
pub use routes::Routes;
pub use service::Failover;
pub use upstream::{DEFAULT_WEIGHT, Upstream};
