//! What LLM providers say on the wire: pure functions and one incremental scanner, no IO, no Tower.
//!
//! - [`operation`]: which call is it; [`read_request`]: what does it ask for;
//! - [`Scanner`]: the answer, as a stream or as one document: when does content start, how does it end, what was used;
//! - [`classify`], [`retry_hint`]: what an error means, and how long the provider wants to be left alone;
//! - [`splice`]: changes of a request body by bytes, so that all that is not meant stays as it was.
//!
//! Nothing here is lost on hostile input: every function takes any bytes, keeps bounded memory, and never panics.

mod error;
mod framing;
mod json;
mod operation;
mod request;
mod retry;
mod scanner;
pub mod splice;

pub use error::{WireError, classify, error_event};
pub use framing::Framing;
pub use operation::operation;
pub use request::{AiRequest, RequestError, read_request};
pub use retry::retry_hint;
pub use scanner::{Ending, Event, EventKind, MAX_EVENT_BYTES, Scanner, UsageMember};
