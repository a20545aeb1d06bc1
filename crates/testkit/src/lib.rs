//! Test support for the workspace: what a layer is tested between, and what it is tested for.
//!
//! - A layer's caller and its inner service: [`ScriptedBody`], [`ProbeService`], [`ALL_ENDS`].
//! - What every layer must do: [`contract!`], one line in a layer's tests.
//! - Upstreams on real sockets, sane and faulty: [`FaultUpstream`] with [`Reply`], [`Gate`], [`RefusedPort`].
//! - What providers send: [`openai`], [`anthropic`], each answer a [`Sample`].
//! - Time: [`in_paused_time`], [`clock_from`], [`SetClock`]. Programs: [`Process`], [`which_or_explain`],
//!   [`workspace_binary`]. Telemetry: [`MetricNotes`].
//!
//! # Example
//!
//! A layer between a caller and a probe, through every end that the answer's body can meet:
//!
//! ```
//! use http::Request;
//! use testkit::{ALL_ENDS, Answer, ProbeService, ScriptedBody};
//! use tower::{Layer, ServiceExt, layer::util::Identity};
//!
//! testkit::in_paused_time(async {
//!     for end in ALL_ENDS {
//!         let probe = ProbeService::new(move |_n| Answer::ok(end.body(["some ", "data"])));
//!         let service = Identity::new().layer(probe.clone()); // your layer
//!
//!         let request = Request::post("/v1/messages").body(ScriptedBody::of(["{}"])).unwrap();
//!         let response = service.oneshot(request).await.unwrap();
//!         end.meet(response.into_body()).await;
//!
//!         assert_eq!(probe.seen()[0].body, "{}"); // and: settled once
//!     }
//! });
//! ```
//!
//! A panic is how this crate reports: every function says so where it can.

mod answer;
pub mod anthropic;
mod body;
mod clock;
pub mod contract;
mod end;
mod metrics;
pub mod openai;
mod permits;
mod process;
mod sample;
mod service;
mod upstream;

pub use answer::Answer;
pub use body::{BodyWatch, ScriptError, ScriptedBody};
pub use clock::{SetClock, clock_from};
pub use contract::{Contract, in_paused_time};
pub use end::{ALL_ENDS, End};
pub use metrics::MetricNotes;
pub use process::{Process, which_or_explain, workspace_binary};
pub use sample::Sample;
pub use service::{NOT_READY, ProbeService, SeenRequest};
pub use upstream::{Cut, Decision, FaultUpstream, Gate, RefusedPort, Reply, UpstreamRequest};
