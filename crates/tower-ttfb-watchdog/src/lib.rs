//! A Tower layer that gives up on an upstream that accepts a request and then says nothing.
//!
//! An upstream that hangs is worse than one that fails: every call to it waits for the timeout of the whole call.
//! This layer watches the exchange phase by phase and gives each silence a limit of its own:
//!
//! | phase | from | default |
//! |---|---|---|
//! | connect | the call, to a connection | 3 s |
//! | upload | each piece of the request that was taken, to the next | 10 s |
//! | first byte | the request being written, to the first byte of the answer's **body** | 50 ms |
//! | gap | the body being asked for a frame, to that frame | 60 s |
//!
//! When a limit fires, the inner call is dropped, which cancels it upstream, and the layer answers
//! `504 upstream_silent` in the shape that the caller's client reads (gRPC: trailers-only, status 4), with
//! `Retry-After: 1`. The response extensions [`RefusedBy`] (another candidate may do) and [`Silence`] (prints
//! `ttfb-50ms`) tell failover, or your own code, which limit it was. A gap comes after the head went out, so it ends
//! the body with an error, [`Silence`] too.
//!
//! An answer that is there always wins over a timer, also over one that fires late because this process was busy.
//!
//! # Examples
//!
//! Around hyper's client, with the defaults:
//!
//! ```
//! use hyper_util::{client::legacy::{Client, connect::HttpConnector}, rt::TokioExecutor};
//! use tower::ServiceBuilder;
//! use tower_ttfb_watchdog::TtfbWatchdogLayer;
//! # use {bytes::Bytes, http::Request, http_body_util::Full, tower::Service};
//! # fn is_a_service<S: Service<Request<Full<Bytes>>>>(_: &S) {}
//!
//! let mut connector = HttpConnector::new();
//! connector.set_nodelay(true); // Nagle's algorithm alone can hold the end of a request back for 40 ms
//!
//! let client = ServiceBuilder::new()
//!     .layer(TtfbWatchdogLayer::new())
//!     .service(Client::builder(TokioExecutor::new()).build(connector));
//! # is_a_service(&client);
//! ```
//!
//! 50 ms suits upstreams whose P99 is under 40 ms, such as a model in the same cluster. Others need their own figure:
//!
//! ```
//! use std::time::Duration;
//! use tower_ttfb_watchdog::TtfbWatchdogLayer;
//!
//! let layer = TtfbWatchdogLayer::new()
//!     .first_byte(Duration::from_secs(20))
//!     .gap(Duration::from_secs(120));
//! ```
//!
//! Behind failover, each candidate can have a limit of its own: [`Attempt::first_byte`] in the request's extensions
//! replaces the layer's.
//!
//! # Place in the stack
//!
//! Next to the client. Nothing between the two may buffer or rewrite the request, else "written" is a lie and the
//! limit counts time in which the upstream had nothing to answer.
//!
//! - A client that knows its connections claims [`Phases`] (a request extension) in `call` and tells when it is
//!   connected, how much it wrote and when all is written. A connection on which nothing came back is poisoned, so
//!   that a dead HTTP/2 connection does not swallow the next call as well.
//! - Any other client is watched by what it takes of the request's body. Connecting is then a part of the upload, and
//!   the request is written when its last piece was taken. [`RequestBody`] hands out at most 16 KiB at a time to keep
//!   that close to the truth; what the kernel buffers still counts as written, so allow for it where large requests
//!   meet a slow link.
//! - Time in which the *caller's* body has nothing to send, or in which nobody asks the answer's body for more, is not
//!   the upstream's silence and has no limit here: bound the whole call as well (failover does, with a deadline).
//! - The inner service's request body becomes [`RequestBody`]; over a client that takes one type of body only
//!   (tonic's `Channel`), put a `map_request` that wraps it in between. The answer's body has to be `Unpin`, as those
//!   of hyper, axum and tonic are; [`ResponseBody`] itself is not.
//! - An answer that starts while the request is still being sent passes at its head, since a duplex call would
//!   deadlock. The gap applies from there: set it to what your longest pause in a stream is.
//!
//! [`Call`] is noted if it is there. None of this needs another layer of the workspace.
//!
//! # Why not another timeout?
//!
//! `tower::timeout` and `tower_http::timeout::TimeoutLayer` have one limit from the call to the head. It has to cover
//! the slowest connection and the largest upload, so it cannot be short; and an upstream that sends its headers and
//! then hangs has passed it. The first also changes the error type, the second looks at its timer before it looks at
//! the answer. `tower_http`'s `TimeoutBody` limits gaps, but hides the length of the body.
//!
//! # Cancellation
//!
//! Nothing is spawned. Dropping the response future drops the inner one, dropping the body drops the inner one; each
//! cancels the call upstream and leaves no timer behind.
//!
//! # Telemetry
//!
//! With feature `tracing` (default), a warning for each limit that fires and a debug line for each first byte, target
//! `ttfb_watchdog`. With feature `metrics`, the counter `watchdog_silent_total{phase}` and the histogram
//! `watchdog_first_byte_seconds`. The answer carries [`FirstByte`] as an extension, unless it started before the
//! request was written.
//!
//! [`Attempt::first_byte`]: tower_ai_core::Attempt
//! [`Call`]: tower_ai_core::Call
//! [`FirstByte`]: tower_ai_core::FirstByte
//! [`Phases`]: tower_ai_core::Phases
//! [`RefusedBy`]: tower_ai_core::RefusedBy
//! [`Silence`]: tower_ai_core::Silence

mod future;
mod layer;
mod observe;
mod request;
mod response;
mod service;
mod timer;
mod upload;

pub use future::ResponseFuture;
pub use layer::TtfbWatchdogLayer;
pub use request::RequestBody;
pub use response::ResponseBody;
pub use service::TtfbWatchdog;
