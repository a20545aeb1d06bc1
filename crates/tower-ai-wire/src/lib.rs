//! What LLM providers say on the wire: pure functions and one incremental scanner, no IO, no Tower.
//!
//! - [`operation`]: which call is it; [`read_request`]: what does it ask for;
//! - [`Scanner`]: the answer, as a stream or as one document: when does content start, how does it end, what was used;
//! - [`classify`], [`retry_hint`]: what an error means, and how long the provider wants to be left alone;
//! - [`splice`]: changes of a request body by bytes, so that all that is not meant stays as it was.
//!
//! Dialects so far: OpenAI chat completions, with the servers that are compatible with it, and Anthropic messages.
//! Usage is brought to one normal form, [`TokenCounts`](tower_ai_core::TokenCounts).
//!
//! # Example
//!
//! A stream, pushed as it comes:
//!
//! ```
//! use tower_ai_core::Operation;
//! use tower_ai_wire::{Ending, EventKind, Framing, Scanner};
//!
//! let mut scanner = Scanner::new(Operation::ChatCompletions, Framing::Sse);
//! let mut content_seen = false;
//! for piece in [
//!     "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_rea",
//!     "son\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n",
//! ] {
//!     scanner.push(piece.as_bytes(), |event| content_seen |= event.kind == EventKind::Content);
//! }
//! assert!(content_seen);
//! assert_eq!(scanner.ending(), Ending::Complete);
//! assert_eq!(scanner.usage().unwrap().input, 9);
//! ```
//!
//! An error, told by its body rather than by its status:
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use tower_ai_core::ErrorClass;
//!
//! let body = br#"{"error":{"type":"insufficient_quota","message":"You have no credits left."}}"#;
//! let error = tower_ai_wire::classify(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), body);
//! assert_eq!(error.class, ErrorClass::Quota);
//! ```
//!
//! # Hostile input
//!
//! Every function takes any bytes and never panics. A scanner keeps at most one partial event
//! ([`MAX_EVENT_BYTES`], a document up to 8 MiB); what is longer passes unread and counts as content. Nesting never
//! reaches the stack.

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
