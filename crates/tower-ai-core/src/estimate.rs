//! What a call may cost, known before it is sent.

use crate::{NanoUsd, TokenCounts};
use std::fmt;

/// Input tokens assumed where nothing is known about a call (row A6 of the requirements in `ARCHITECTURE.md`).
pub const ASSUMED_INPUT_TOKENS: u64 = 1_200;
/// Output tokens assumed for a call that sets no bound.
pub const ASSUMED_OUTPUT_TOKENS: u64 = 600;
/// The most tokens an estimate may name on either side; more is an error of the one who estimates.
pub const MAX_ESTIMATE_TOKENS: u64 = 10_000_000;

/// How an [`Estimate`] was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EstimateMode {
    /// From the size of the text.
    Fast,
    /// Nothing is known; the assumed counts.
    Assumed,
    /// Brought by a handler.
    Given,
}

/// What a call may cost. **Put by** Estimate, or by your handler; **read by** limits (tokens) and budgets (cost).
/// Absent: [`ASSUMED_INPUT_TOKENS`] + [`ASSUMED_OUTPUT_TOKENS`], priced as the layer is told.
///
/// ```
/// use tower_ai_core::{Estimate, usd};
///
/// let mine = Estimate::given(900, 250).unwrap().with_cost(usd!(0.002));
/// assert_eq!(mine.counts().total(), 1150);
/// assert!(Estimate::given(10_000_001, 0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    counts: TokenCounts,
    output_bound: Option<u64>,
    cost: Option<NanoUsd>,
    mode: EstimateMode,
}

impl Estimate {
    /// An estimate of these counts; `counts.output` is the output that is reserved.
    ///
    /// # Errors
    /// [`InvalidEstimate`] when a side is above [`MAX_ESTIMATE_TOKENS`].
    pub fn new(mode: EstimateMode, counts: TokenCounts) -> Result<Self, InvalidEstimate> {
        for (side, tokens) in [("input", counts.input), ("output", counts.output)] {
            if tokens > MAX_ESTIMATE_TOKENS {
                return Err(InvalidEstimate { side, tokens });
            }
        }
        Ok(Self {
            counts,
            output_bound: None,
            cost: None,
            mode,
        })
    }

    /// A handler's own figures.
    ///
    /// # Errors
    /// [`InvalidEstimate`] when a side is above [`MAX_ESTIMATE_TOKENS`].
    pub fn given(input: u64, output: u64) -> Result<Self, InvalidEstimate> {
        Self::new(EstimateMode::Given, TokenCounts::new(input, output))
    }

    /// The figures for a call of which nothing is known.
    pub const fn assumed() -> Self {
        Self {
            counts: TokenCounts::new(ASSUMED_INPUT_TOKENS, ASSUMED_OUTPUT_TOKENS),
            output_bound: None,
            cost: None,
            mode: EstimateMode::Assumed,
        }
    }

    /// The figures for a request that asks nothing of a model.
    pub const fn nothing() -> Self {
        Self {
            counts: TokenCounts::new(0, 0),
            output_bound: None,
            cost: Some(NanoUsd::ZERO),
            mode: EstimateMode::Given,
        }
    }

    /// The bound on output tokens that the request itself sets, all choices together.
    pub fn with_output_bound(mut self, tokens: u64) -> Self {
        self.output_bound = Some(tokens);
        self
    }

    /// What the counts cost, rounded up.
    pub fn with_cost(mut self, cost: NanoUsd) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Estimated tokens.
    pub fn counts(&self) -> &TokenCounts {
        &self.counts
    }

    /// The request's own bound on output tokens, if it has one.
    pub fn output_bound(&self) -> Option<u64> {
        self.output_bound
    }

    /// What it may cost; `None` when the model has no known price.
    pub fn cost(&self) -> Option<NanoUsd> {
        self.cost
    }

    /// How it was made.
    pub fn mode(&self) -> EstimateMode {
        self.mode
    }
}

/// A token count no call can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidEstimate {
    side: &'static str,
    tokens: u64,
}

impl fmt::Display for InvalidEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} tokens estimated, at most {MAX_ESTIMATE_TOKENS} are allowed",
            self.tokens, self.side
        )
    }
}

impl std::error::Error for InvalidEstimate {}
