//! Test support.

mod answer;
mod body;
pub mod contract;
mod end;
mod permits;
mod service;

pub use answer::Answer;
pub use body::{BodyWatch, ScriptError, ScriptedBody};
pub use contract::{Contract, in_paused_time};
pub use end::{ALL_ENDS, End};
pub use service::{NOT_READY, ProbeService, SeenRequest};
