//! Where prices come from.

use std::time::SystemTime;
use tower_ai_core::{Dialect, PicoUsd, TokenCounts};

/// A table of prices.
pub trait PriceBook: Send + Sync + 'static {
    /// What these counts cost, unrounded; `None` when the book has no price for them. It must not block.
    fn price(&self, query: &PriceQuery<'_>, counts: &TokenCounts) -> Option<PicoUsd>;
}

/// What is to be priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriceQuery<'a> {
    /// The model by any name a provider gives it.
    pub model: &'a str,
    /// Whose prices apply (`openai`, `azure`), if that is known.
    pub provider: Option<&'a str>,
    /// The dialect of the call: where the provider is not known, the vendor of the dialect is tried first.
    pub dialect: Option<Dialect>,
    /// The service tier that is asked for, or that the answer names.
    pub tier: Option<&'a str>,
    /// When the call was made: some prices change on a date or at a time of day.
    pub at: SystemTime,
}

impl<'a> PriceQuery<'a> {
    /// The standard price of a model, now, wherever it is served.
    pub fn new(model: &'a str) -> Self {
        Self {
            model,
            provider: None,
            dialect: None,
            tier: None,
            at: SystemTime::now(),
        }
    }

    /// At this provider.
    pub fn provider(mut self, provider: &'a str) -> Self {
        self.provider = Some(provider);
        self
    }

    /// At the vendor of this dialect, or wherever it is served.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// On this service tier.
    pub fn tier(mut self, tier: &'a str) -> Self {
        self.tier = Some(tier);
        self
    }

    /// At this time.
    pub fn at(mut self, at: SystemTime) -> Self {
        self.at = at;
        self
    }
}
