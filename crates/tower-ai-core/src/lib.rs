//! The vocabulary that the tower-ai layers share.
//!
//! Applications rarely need more of it than [`Caller`] (put it into the request's extensions after you have
//! authenticated the request), [`usd!`] and [`Plans`]. Authors of layers find here what every layer must agree on:
//!
//! - [`Call`]: the facts of one call in one request extension, and [`UsageMeter`], through which results come back
//!   up for as long as a streaming body lives;
//! - [`TapBody`]: the one place that knows the five ends of a body; [`Buffered`]: request bodies read first;
//! - [`Refusal`]: answers that a layer gives by itself, in the shape that the caller's client reads;
//! - [`settlement`]: what a reservation comes to when its call is over;
//! - [`NanoUsd`]: exact money; [`Plans`] and [`ConfigError`]: configuration that is checked when a layer is built.
//!
//! # Example
//!
//! ```
//! use tower_ai_core::{Call, Caller, Estimate, usd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut request = http::Request::new(());
//! request.extensions_mut().insert(Caller::new("acme")?.plan("growth")?);
//! request.extensions_mut().insert(Estimate::given(900, 250)?.with_cost(usd!(0.002))); // optional: your own counts
//!
//! let call = Call::of(request.extensions_mut()); // what each layer does
//! assert_eq!(call.caller().unwrap().plan_name(), Some("growth"));
//! # Ok(()) }
//! ```
//!
//! # Place in the stack
//!
//! ```text
//! caller ─▶ your auth ─▶ Estimate ─▶ RateLimit ─▶ Budget ─▶ Failover ─▶ Usage ─▶ TtfbWatchdog ─▶ client ─▶ upstream
//! ```
//!
//! Facts go down as request extensions; results come up through the shared [`UsageMeter`], since only that lives as
//! long as a body. Every layer is useful alone: an extension that is absent has a documented meaning.
//!
//! # Cancellation
//!
//! Nothing here spawns, blocks or awaits. A guard in a [`TapBody`] is told the end when the body is dropped.

mod ai;
mod attempt;
mod buffered;
mod call;
mod caller;
mod clock;
mod estimate;
mod meter;
mod money;
mod phases;
mod plans;
mod refusal;
mod settle;
mod step;
mod tap;
mod tokens;

pub use ai::{AiCall, Dialect, ErrorClass, Operation};
pub use attempt::{
    Attempt, AttemptRecord, BudgetState, Deadline, FailoverTrace, FirstByte, Quota, QuotaLimit, Reason,
    ServedBy, Silence, SilentPhase,
};
pub use buffered::{Buffered, Buffering};
pub use call::{Call, LayerKind};
pub use caller::{Caller, ClientAddr, Id, InvalidId, MAX_ID_BYTES};
pub use clock::WallClock;
pub use estimate::{
    ASSUMED_INPUT_TOKENS, ASSUMED_OUTPUT_TOKENS, Estimate, EstimateMode, InvalidEstimate, MAX_ESTIMATE_TOKENS,
};
pub use meter::{AttemptUsage, Tariff, UsageMeter, UsageState};
pub use money::{Cents, NanoUsd, ParseUsdError, PicoUsd};
pub use phases::Phases;
pub use plans::{ConfigError, Plans};
pub use refusal::{LONGEST_POLITE_WAIT, Refusable, Refusal, RefusalFormat, RefusalKind, RefusedBy, Scope};
pub use settle::{Basis, Outcome, Settlement, settlement};
pub use step::Step;
pub use tap::{BodyEnd, OnEnd, TapBody};
pub use tokens::TokenCounts;

/// A boxed error that can cross threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
