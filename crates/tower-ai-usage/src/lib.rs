//! Tower layers that estimate a model call before it is sent and read its usage from the answer.
//!
//! [`EstimateLayer`] reads the bodies of known AI calls (OpenAI chat completions, Anthropic messages, whatever base
//! their path has) and puts two facts into the request's [`Call`](tower_ai_core::Call): which model is asked for what
//! ([`AiCall`](tower_ai_core::AiCall)), and how many tokens and dollars it may cost
//! ([`Estimate`](tower_ai_core::Estimate)). [`UsageLayer`] reads the answer, streamed or not, and writes what was used
//! into the call's [`UsageMeter`](tower_ai_core::UsageMeter), before it returns the frame that told it. Both share
//! [`Prices`].
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, header::CONTENT_TYPE};
//! use http_body_util::{BodyExt, Full};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_ai_core::{Buffered, Call, NanoUsd, usd};
//! use tower_ai_usage::{EstimateLayer, Prices, UsageLayer};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let prices = Prices::bundled();
//! let service = ServiceBuilder::new()
//!     .layer(EstimateLayer::new(&prices))
//!     .layer(UsageLayer::new(&prices))
//!     .service(service_fn(upstream));
//!
//! let call = Call::default(); // your own handle to the facts of this call; the layers make one otherwise
//! let body = r#"{"model": "gpt-4o-mini", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}"#;
//! let request = Request::post("/v1/chat/completions").extension(call.clone()).body(Full::from(body)).unwrap();
//! let response = service.oneshot(request).await.unwrap();
//! assert!(call.estimate().unwrap().cost() > Some(usd!(0.000_06)));
//!
//! response.into_body().collect().await.unwrap();
//! let used = call.meter().served_attempt().unwrap();
//! assert_eq!((used.counts.input, used.counts.output), (9, 3));
//! assert_eq!(used.cost, Some(NanoUsd::from_nanos(9 * 150 + 3 * 600)));
//! # });
//!
//! async fn upstream(_: Request<Buffered<Buffered<Full<Bytes>>>>) -> Result<Response<Full<Bytes>>, std::io::Error> {
//!     let answer = r#"{"model": "gpt-4o-mini", "choices": [{"index": 0, "finish_reason": "stop",
//!         "message": {"role": "assistant", "content": "Hello to you"}}],
//!         "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}"#;
//!     Ok(Response::builder().header(CONTENT_TYPE, "application/json").body(Full::from(answer)).unwrap())
//! }
//! ```
//!
//! Configured:
//!
//! ```
//! use std::time::Duration;
//! use tower_ai_core::usd;
//! use tower_ai_usage::{EstimateLayer, Price, Prices, Unpriced, UsageLayer};
//!
//! let prices = Prices::bundled()
//!     .with_price("our-finetune", Price::per_million(usd!(3.75), usd!(15)).cached_read(usd!(1.875)))
//!     .free("llama-on-our-own-machines");
//! let estimate = EstimateLayer::new(&prices)
//!     .body_limit(8 * 1024 * 1024)
//!     .read_timeout(Duration::from_secs(10))
//!     .assumed_output(2_000)
//!     .unpriced(Unpriced::Refuse);
//! let usage = UsageLayer::new(&prices);
//! # let _ = (estimate, usage);
//! ```
//!
//! # Place in the stack
//!
//! ```text
//! caller ─▶ your auth ─▶ Estimate ─▶ RateLimit ─▶ Budget ─▶ Failover ─▶ Usage ─▶ TtfbWatchdog ─▶ client ─▶ upstream
//! ```
//!
//! Estimate stands outside everything that reserves; it has limits on the size and on the time of what it reads. Usage
//! stands inside failover, so that each attempt is told apart and priced at the upstream that served it.
//!
//! Alone, Estimate is a check of request bodies with a price tag. Without Estimate, Usage reads the request itself;
//! without failover there is one attempt, number 0, and Usage asks for an answer that is not encoded. An answer that is
//! encoded all the same, or of an unknown type, passes unread and is counted by its length.
//!
//! # What is refused
//!
//! By Estimate, in the caller's dialect and before any inner layer sees the request: 400 `invalid_json`,
//! `invalid_request` (no model, a field of a wrong kind), `invalid_estimate` (a negative or absurd count); 404
//! `model_not_found` ([`Unpriced::Refuse`]); 408 `request_timeout`; 413 `body_too_large`; 503 `server_busy` (no memory
//! for more bodies). An [`Estimate`](tower_ai_core::Estimate) that you put into the request's extensions replaces ours.
//!
//! # Cancellation
//!
//! Dropping a future or a body drops what is inside, and frees the memory of the body that was read; nothing is spawned.
//! What an answer told by then is in the meter.

mod asked;
mod estimate;
mod observe;
mod prices;
mod usage;

pub use estimate::{EstimateFuture, EstimateLayer, Estimator, Unpriced};
pub use prices::{GenaiBook, InvalidPrices, Price, PriceBook, PriceQuery, Prices};
pub use usage::{Usage, UsageBody, UsageFuture, UsageLayer};

use prices::PricedAs;
