//! Test support.

mod answer;
pub mod anthropic;
mod body;
mod clock;
pub mod contract;
mod end;
pub mod openai;
mod permits;
mod sample;
mod service;

pub use answer::Answer;
pub use body::{BodyWatch, ScriptError, ScriptedBody};
pub use clock::{SetClock, clock_from};
pub use contract::{Contract, in_paused_time};
pub use end::{ALL_ENDS, End};
pub use sample::Sample;
pub use service::{NOT_READY, ProbeService, SeenRequest};
