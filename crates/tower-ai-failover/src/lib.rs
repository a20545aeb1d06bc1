//! Several upstreams for the same model behind one Tower service.
//!
//! A call goes to the candidates of its model in descending weight. As long as nothing of an answer has reached the
//! caller, the next candidate takes over when one fails: refuses the connection, is silent, breaks off, answers 408, 429
//! or 5xx, or puts an error into a 200 before any content. Any other 4xx is the caller's and passes unchanged. Another
//! model than the one asked for is never served, and nothing is translated.
//!
//! # Examples
//!
//! Two upstreams for one model, over the client of this crate:
//!
#![cfg_attr(feature = "client", doc = "```")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! # fn main() -> Result<(), tower_ai_core::ConfigError> {
//! use tower::ServiceBuilder;
//! use tower_ai_failover::{FailoverLayer, Routes, Upstream, UpstreamClient};
//!
//! let routes = Routes::new().model("gpt-5", [
//!     Upstream::openai("openai", "https://api.openai.com/v1").key("sk-…"),
//!     Upstream::openai("eu-gpus", "http://10.0.0.7:8000/v1").named("gpt5-eu").weight(60).region("eu"),
//! ]);
//! let service = ServiceBuilder::new().layer(FailoverLayer::new(routes)?).service(UpstreamClient::new()?);
//! # let _ = service;
//! # Ok(()) }
//! ```
//!
//! A shorter deadline, and a catch-all for every other call:
//!
//! ```
//! # fn main() -> Result<(), tower_ai_core::ConfigError> {
//! use std::time::Duration;
//! use tower_ai_failover::{FailoverLayer, Routes, Upstream};
//!
//! let routes = Routes::new()
//!     .model("claude-sonnet-4-5", [Upstream::anthropic("anthropic", "https://api.anthropic.com").key("…")])
//!     .any([Upstream::openai("openai", "https://api.openai.com/v1").first_byte(Duration::from_secs(20))]);
//! let layer = FailoverLayer::new(routes)?.deadline(Duration::from_secs(120)).waiting(Duration::from_secs(10));
//! assert_eq!(layer.models().collect::<Vec<_>>(), ["claude-sonnet-4-5"]);
//! # Ok(()) }
//! ```
//!
//! # Place in the stack
//!
//! ```text
//! … ─▶ RateLimit ─▶ Budget ─▶ Failover ─▶ Usage ─▶ TtfbWatchdog ─▶ client ─▶ upstream
//! ```
//!
//! Inside limits and budgets: one reservation for a call, not one for each attempt. What is inside of it is called once for
//! each attempt, with an [`Attempt`] among the request's extensions. Alone it is useful too: without Estimate it reads the
//! model from the request by itself; without a watchdog a silent candidate is given up when its share is used up.
//!
//! The answer carries [`ServedBy`] and [`FailoverTrace`] as extensions, the trace also when nobody served.
//!
//! # Time
//!
//! A call has 540 s in all, streaming included, unless it brings a [`Deadline`]. Each candidate gets a share of what is
//! left to start its answer: 150 s for the first of three. A candidate that was not tried is tried at once; one that has
//! failed only after a wait: exponential with full jitter up to 8 s, or as long as it asked for if that fits. At most 5
//! attempts and 30 s of waiting. Then the answer is 503 `all_upstreams_exhausted` with `Retry-After`, or 429 if every
//! candidate said 429.
//!
//! # What is held back
//!
//! Of an event stream what precedes the first content (64 KiB or 256 events at most), of a JSON document all (256 KiB at
//! most, and no longer than the share once its first byte is there). From then on each frame is passed on as it comes, cut
//! after whole events. A stream that breaks off then ends with an error event in the caller's dialect, never as if it were
//! complete. Request bodies up to 32 MiB are kept to be sent again; a larger one gets one attempt.
//!
//! A call whose content type is `application/grpc*` also gets one attempt, its body and answer passing as they come: it
//! may be a conversation. It fails over only while the inner service is not ready. Methods that are named by
//! [`FailoverLayer::unary_grpc`] are read whole and fail over on faults and silence; a status in gRPC trailers is an answer
//! and passes.
//!
//! # Cancellation
//!
//! Dropping the response future, or the response body, drops the attempt that is under way and with it the request at the
//! upstream. Nothing is spawned. A candidate that is given up is dropped before the next one is called. In the call's
//! [`UsageMeter`](tower_ai_core::UsageMeter) such an attempt is `MaybeBilled`.
//!
//! [`Attempt`]: tower_ai_core::Attempt
//! [`Deadline`]: tower_ai_core::Deadline
//! [`FailoverTrace`]: tower_ai_core::FailoverTrace
//! [`ServedBy`]: tower_ai_core::ServedBy

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
