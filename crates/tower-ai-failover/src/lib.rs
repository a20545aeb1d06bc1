//! Several upstreams for the same model behind one Tower service.

mod body;
#[cfg(feature = "client")]
mod client;
mod future;
mod layer;
mod prepare;
mod routes;
mod service;
mod upstream;

pub use body::FailoverBody;
#[cfg(feature = "client")]
pub use client::{ClientBody, ClientError, ClientFuture, UpstreamClient};
pub use future::ResponseFuture;
pub use layer::FailoverLayer;
pub use routes::Routes;
pub use service::Failover;
pub use upstream::{DEFAULT_WEIGHT, Upstream};
