//! A [Tower] layer that limits requests and tokens per tenant, user, address or any key of yours, so that one
//! tenant's loop does not degrade every other tenant.
//!
//! A request must fit all its limits and is counted in all of them or in none. It answers `429` with the exact wait,
//! in the shape that the caller's client reads, and tells what is left on every response.
//!
//! [Tower]: https://docs.rs/tower
//!
//! # Example
//!
//! One layer on handlers that know nothing of AI:
//!
//! ```
//! use tower_ai_ratelimit::{Limits, MemoryStore, RateLimitLayer, SECOND, bucket};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = Limits::in_all().requests("rps", bucket(20).refill(2).per(SECOND));
//! let layer = RateLimitLayer::new(MemoryStore::new(), limits)?;
//! # let _ = tower_layer::Layer::layer(&layer, ());
//! # Ok(()) }
//! ```
//!
//! By plan, with tokens, and with every setting:
//!
//! ```
//! use tower_ai_core::{Caller, Plans};
//! use tower_ai_ratelimit::{
//!     Limits, MINUTE, MemoryStore, MissingKey, Outage, RateLimitLayer, SECOND, bucket,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let addresses = Limits::per_client_addr().requests("address", bucket(50).refill(5).per(SECOND));
//! let plans = Plans::fallback("free")
//!     .plan("free", Limits::per_tenant()
//!         .requests("rpm", bucket(20).refill(2).per(SECOND))
//!         .tokens("tpm", bucket(40_000).refill(40_000).per(MINUTE))
//!         .and(addresses))
//!     .plan("growth", Limits::per_tenant().requests("rpm", bucket(500).refill(50).per(SECOND)));
//!
//! let layer = RateLimitLayer::new(MemoryStore::new().max_keys(1_000_000), plans)?
//!     .on_missing_key(MissingKey::Anonymous) // default: 401 `missing_caller`
//!     .outage(Outage::Closed)                // default: open
//!     .max_output_tokens(4_096)              // default: the request's own bound, or the estimate
//!     .ietf_headers(false);                  // default: sent
//!
//! // Your authentication says who is calling, by an extension of the request:
//! let mut request = http::Request::new(());
//! request.extensions_mut().insert(Caller::new("acme")?.plan("growth")?);
//! # let _ = layer;
//! # Ok(()) }
//! ```
//!
//! # What is counted
//!
//! Requests count one each. Tokens are reserved by the request's [`Estimate`](tower_ai_core::Estimate) and corrected
//! by the usage when it is known; what was used beyond the reservation is debt, at most one capacity of it. A refused
//! request costs nothing, in no limit; neither does one that an inner layer refused before anything was sent upstream.
//!
//! # Answers
//!
//! | status | code | when |
//! |---|---|---|
//! | 429 | `rate_limit_exceeded` | a limit is used up; who waits exactly the told time is admitted |
//! | 413 | `request_exceeds_limit` | it is above a limit's capacity and can never pass; no hint to retry |
//! | 401 | `missing_caller` | no caller, user or address to count it for |
//! | 503 | `limiter_unavailable` | the store is down and [`Outage::Closed`] |
//!
//! Every response that passes carries the [`Quota`](tower_ai_core::Quota) extension and the headers of three families:
//! `X-RateLimit-*`, OpenAI's, and the IETF's. They replace what an upstream says of our key there.
//!
//! # Place in the stack
//!
//! Inside your authentication and Estimate, outside Budget and Failover: the cheap refusal first, once for each
//! request rather than for each attempt.
//!
//! # Cancellation
//!
//! A future or body that is dropped settles its tokens as any other end does. Its request stays counted.
//!
//! # When the store is down
//!
//! A store that cannot tell never means "no". By default the request passes, with a log line and a metric, and nothing
//! is said of limits. [`MemoryStore`] is never down.

mod algorithm;
mod ask;
mod body;
mod decision;
mod future;
mod gcra;
mod headers;
mod key;
mod layer;
mod limit;
mod observe;
mod plans;
mod reservation;
mod service;
mod store;

pub use algorithm::{Algorithm, Bucket, BucketOf, DAY, HOUR, MINUTE, Refilling, SECOND, bucket};
pub use body::ResponseBody;
pub use future::ResponseFuture;
pub use key::{By, MissingKey, Scope};
pub use layer::{Outage, RateLimitLayer};
pub use limit::{Limit, Limits, MAX_LIMITS, Unit};
pub use plans::reference_plans;
pub use service::RateLimit;
pub use store::{
    Correction, LimitState, Mark, PerLimit, Room, Store, Take, Verdict,
    memory::{MemoryKey, MemoryStore},
};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadMe;
