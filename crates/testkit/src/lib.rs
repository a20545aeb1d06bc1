//! Test support.

mod answer;
mod body;
mod end;
mod permits;
mod service;

pub use answer::Answer;
pub use body::{BodyWatch, ScriptError, ScriptedBody};
pub use end::{ALL_ENDS, End};
pub use service::{NOT_READY, ProbeService, SeenRequest};
