//! Reads what a call used from its answer, while it passes.

mod body;
mod future;
mod layer;
mod record;
mod service;
mod strip;

pub use body::UsageBody;
pub use future::UsageFuture;
pub use layer::UsageLayer;
pub use service::Usage;
