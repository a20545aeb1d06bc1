//! A Tower layer that keeps each caller's model bill within a budget.
//!
//! Before a call is made, the most that it can cost is reserved on its caller's account, in one atomic step; when it is
//! over, what it did cost is booked and the rest is given back. Concurrent calls can never be admitted beyond the
//! limit together, and a call that is refused costs nothing.
//!
//! | what is refused | answer |
//! |---|---|
//! | a call that costs more than one call may (0.80 USD by default; exactly that passes) | 413 `prompt_too_expensive`, with estimate and cap; nothing is reserved |
//! | a call for which there is no room (one that brings the total to exactly the limit passes) | 429, or 402 by choice, `ai_daily_budget_exceeded`, with the time until the window resets |
//! | a call without a [`Caller`] | 401 `missing_caller`, or one shared account by choice |
//! | a call whose model has no price, where money is counted | 404 `model_not_found`, or a flat cost by choice |
//! | a call while the ledger does not answer | 503 `ledger_unavailable`, or it passes by choice |
//! | a call that nobody estimated, with no price set for it, where money is counted | 500 `misconfigured`, explained once in the log |
//!
//! Each is in the shape that the caller's client reads (OpenAI, Anthropic, gRPC, or problem+json), and tells SDKs not
//! to retry by themselves. A call that costs nothing passes even where nothing is left.
//!
//! # Examples
//!
//! Two dollars per tenant and day, at an assumed price; nothing else in the stack knows of AI:
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
//! use tower_ai_core::{BudgetState, Caller, usd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let budget = BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(2.00)))?
//!     .assumed_price(usd!(0.50), usd!(1.50)); // for a million tokens: 0.0015 USD for 1,200 in and 600 out
//! let service = ServiceBuilder::new().layer(budget).service(service_fn(summarize));
//!
//! let mut request = Request::post("/api/ai/summarize").body(Full::from("a long text"))?;
//! request.extensions_mut().insert(Caller::new("acme")?); // your authentication does this
//! let response = service.oneshot(request).await?;
//! assert_eq!(response.extensions().get::<BudgetState>().unwrap().reserved, usd!(0.0015));
//! # Ok(()) })
//! # }
//!
//! async fn summarize(_: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
//!     Ok(Response::new(Full::from("a summary")))
//! }
//! ```
//!
//! Configured, with plans:
//!
//! ```
//! use tower_ai_budget::{Budget, BudgetLayer, ExhaustedStatus, MemoryLedger, MissingCaller, UnknownPrice};
//! use tower_ai_core::{Caller, Plans, usd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let budgets = Plans::fallback("free")
//!     .plan("free", Budget::daily(usd!(2.00)).alert_at_percent(50).alert_at_percent(90))
//!     .plan("pro", Budget::daily(usd!(20.00)).request_cap(usd!(4.00)).in_zone("Asia/Beirut"));
//!
//! let ledger = MemoryLedger::new();
//! let (alerts, inbox) = std::sync::mpsc::sync_channel(100); // somebody else posts what is in there
//! let layer = BudgetLayer::new(ledger.clone(), budgets)?
//!     .on_missing_caller(MissingCaller::Anonymous)
//!     .on_unknown_price(UnknownPrice::Flat(usd!(0.05)))
//!     .exhausted_status(ExhaustedStatus::PaymentRequired)
//!     .alert_hook(move |alert| drop(alerts.try_send(alert)));
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let acme = Caller::new("acme")?.plan("pro")?;
//! let balance = layer.balance(Some(&acme)).await?; // for `GET /v1/usage`
//! assert_eq!(balance.limit.to_string(), "20.00 USD");
//! # let _ = inbox;
//! # Ok(()) })
//! # }
//! ```
//!
//! # What a call is taken to cost
//!
//! The cost of its [`Estimate`], which `EstimateLayer` makes, or your handler. If that has no cost, and a known model
//! was asked for, [`BudgetLayer::on_unknown_price`] decides. A call of which no model is known costs what
//! [`BudgetLayer::fixed_cost`] says, or its counts at [`BudgetLayer::assumed_price`]; without an estimate these are
//! 1,200 tokens in and 600 out.
//!
//! What it did cost is settled by [`tower_ai_core::settlement`]: the usage that the provider told, where `UsageLayer`
//! is inside; what was sent and passed on, where an answer was cut; nothing, where nothing was sent or the upstream
//! failed; and the estimate, where nobody can know better. More than was reserved is booked in full as debt, logged,
//! and counts against the next call.
//!
//! # Requests or tokens instead of money
//!
//! [`Budget::daily_requests`] and [`Budget::daily_tokens`] (and those of a week or a month) count in another unit, for
//! models that nobody has a price for, or plans that are sold so. The rules are the same, and the same calls are charged
//! or released; only the amounts differ:
//!
//! | unit | reserved | settled, if anything is billed |
//! |---|---|---|
//! | requests | 1 | 1 |
//! | tokens | the [`Estimate`]'s input and output, or 1,200 + 600 | input and output as used; what was reserved, where nobody can know |
//!
//! A price need not be known: the cap of one call, in dollars, holds for calls whose cost is. A refusal has the members
//! `used` and `limit` instead of `used_cents` and `limit_cents`, and
//! [`BudgetState`](tower_ai_core::BudgetState), which is in dollars, is not put.
//!
//! # Windows
//!
//! A budget is per day, week or month of a time zone's calendar; days of 23 and 25 hours, midnights that do not exist
//! or come twice are as the clocks there show them ([`Window`]). A call is booked in the window in which it was
//! reserved. The limit travels with each reservation: a plan that changes in mid-window holds at once. A plan in another
//! zone has other windows, which start empty.
//!
//! # Alerts
//!
//! Each threshold (80 % by default) fires once per account and window, when what is spent reaches it, and never later
//! than the first refusal for want of room: if open reservations fill the budget first, or a call alone exceeds it,
//! just before that refusal is sent. An alert is a log event, and a call of [`BudgetLayer::alert_hook`].
//!
//! # Place in the stack
//!
//! ```text
//! your auth ─▶ Estimate ─▶ RateLimit ─▶ Budget ─▶ Failover ─▶ Usage ─▶ …
//! ```
//!
//! Inside what knows the caller and the estimate, and outside failover: one reservation for one client request, not
//! one per attempt. An SDK that repeats a call makes another one. An answer of an inner layer that refused before
//! anything was sent ([`RefusedBy`]) costs nothing.
//!
//! # Cancellation
//!
//! The reservation lives in the response future, and then in the response body. Dropping either settles it, as does
//! each of the other ends of a body; what the layers inside know of the call is told before. Settling never blocks. If
//! a body is neither read nor dropped, or the process dies, the lease ends the reservation: 60 s after the call's
//! deadline (540 s if nobody set one).
//!
//! # When the ledger is down
//!
//! [`MemoryLedger`] is unavailable only when its bounds are reached. Whatever the ledger, a reply that does not come is
//! no "no": by default the call is refused with 503 and `Retry-After`, and with [`Outage::Open`] it passes and nothing
//! is booked. Both are logged and counted.
//!
//! # When not to use it
//!
//! [`MemoryLedger`] counts for one process and forgets with it: no basis for bills. Estimates of tokens alone do not
//! bound what images or audio cost. A strict daily limit is wrong for a batch job that runs over midnight.
//!
//! [`Caller`]: tower_ai_core::Caller
//! [`Estimate`]: tower_ai_core::Estimate
//! [`RefusedBy`]: tower_ai_core::RefusedBy

mod account;
mod alert;
mod amount;
mod body;
mod budget;
mod decision;
mod future;
mod layer;
mod ledger;
mod observe;
mod policy;
mod refusal;
mod reservation;
mod service;
mod window;

pub use account::Account;
pub use alert::{Alarm, Alert, AlertCause};
pub use amount::{Amount, Unit};
pub use body::ResponseBody;
pub use budget::Budget;
pub use future::ResponseFuture;
pub use layer::BudgetLayer;
pub use ledger::{
    Balance, Claim, Drained, Hold, Ledger, MemoryLedger, OnExpire, Receipt, ReservationId, Reserved,
    Statement, Unavailable,
};
pub use policy::{ExhaustedStatus, MaybeBilled, MissingCaller, Outage, UnknownPrice};
pub use service::BudgetService;
pub use window::{Period, Span, Window};
