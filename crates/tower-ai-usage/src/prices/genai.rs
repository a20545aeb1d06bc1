//! The maintained price table of the `genai-prices` crate. Its floats end here.

use super::{PriceBook, PriceQuery};
use genai_prices::{Calculator, ErrorKind, PriceRequest, Usage, UsageKey};
use std::{error::Error, fmt, sync::Arc};
use tower_ai_core::{Dialect, PicoUsd, TokenCounts};

/// Longest model name that is looked up: names come from callers, and matching runs patterns over them.
const MAX_MODEL_BYTES: usize = 256;

/// The price table of the `genai-prices` project: some 50 providers, cache, audio and image prices, long-context
/// thresholds, service tiers, prices by date and time of day.
///
/// A lookup takes about 2 µs, so nothing is cached.
#[derive(Clone, Debug)]
pub struct GenaiBook(Snapshot);

#[derive(Clone, Debug)]
enum Snapshot {
    Bundled(&'static Calculator),
    Loaded(Arc<Calculator>),
}

impl GenaiBook {
    /// The table of this release. The first use decodes it, which takes some 25 ms.
    pub fn bundled() -> Self {
        Self(Snapshot::Bundled(Calculator::bundled()))
    }

    /// A newer table in the project's JSON format, version 2 ([`genai_prices::REMOTE_DATA_URL`] is the current one).
    ///
    /// # Errors
    /// [`InvalidPrices`] when it is not such a table.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, InvalidPrices> {
        let calculator = Calculator::from_json(json).map_err(InvalidPrices)?;
        Ok(Self(Snapshot::Loaded(Arc::new(calculator))))
    }

    fn calculator(&self) -> &Calculator {
        match &self.0 {
            Snapshot::Bundled(calculator) => calculator,
            Snapshot::Loaded(calculator) => calculator,
        }
    }

    fn price_at(
        &self,
        provider: Option<&str>,
        query: &PriceQuery<'_>,
        counts: &TokenCounts,
    ) -> Option<PicoUsd> {
        let standard = self.calculate(provider, query, None, counts);
        let Some(tier) = query.tier.filter(|tier| *tier != "auto") else {
            return standard;
        };
        let tiered = self.calculate(provider, query, Some(tier), counts);
        // A tier without a price of its own comes back at the standard price. For the cheap tiers that is an upper
        // bound; a dearer tier is not priced rather than charged too little. Anthropic's `priority` is capacity paid
        // for in advance, at standard prices.
        let is_dearer = matches!(tier, "priority" | "fast") && provider != Some(Dialect::Anthropic.as_str());
        let has_price = !is_dearer || tiered != standard || standard == Some(PicoUsd::ZERO);
        tiered.filter(|_| has_price)
    }

    fn calculate(
        &self,
        provider: Option<&str>,
        query: &PriceQuery<'_>,
        tier: Option<&str>,
        counts: &TokenCounts,
    ) -> Option<PicoUsd> {
        let price = |usage: &Usage| {
            let mut request = PriceRequest::new(query.model, usage).with_timestamp(query.at);
            request.provider_id = provider;
            request
                .price_context
                .extend(tier.map(|tier| ("service_tier", tier)));
            if tier == Some("batch") {
                request.price_context.push(("processing", "batch"));
            }
            self.calculator().calculate(&request)
        };
        let priced = match price(&usage_of(counts)) {
            // Subsets that contradict each other (a provider that reports more reasoning than output): by the totals.
            Err(error) if error.kind() == ErrorKind::InvalidUsage => price(&totals_of(counts)),
            priced => priced,
        };
        priced.ok().and_then(|priced| picos(priced.total_price))
    }
}

impl PriceBook for GenaiBook {
    fn price(&self, query: &PriceQuery<'_>, counts: &TokenCounts) -> Option<PicoUsd> {
        if query.model.is_empty() || query.model.len() > MAX_MODEL_BYTES {
            return None;
        }
        match (query.provider, query.dialect) {
            (Some(provider), _) => self.price_at(Some(provider), query, counts),
            (None, None) => self.price_at(None, query, counts),
            // Many providers speak OpenAI's dialect: its own prices first, then by the model's name alone.
            (None, Some(dialect)) => self
                .price_at(Some(dialect.as_str()), query, counts)
                .or_else(|| self.price_at(None, query, counts)),
        }
    }
}

fn totals_of(counts: &TokenCounts) -> Usage {
    Usage::from([
        (UsageKey::INPUT_TOKENS, float(counts.input)),
        (UsageKey::OUTPUT_TOKENS, float(counts.output)),
        (UsageKey::WEB_SEARCHES, float(counts.web_searches)),
    ])
}

/// Both sides count inclusively: subsets stay inside the totals.
fn usage_of(counts: &TokenCounts) -> Usage {
    let subsets = [
        (UsageKey::CACHE_READ_TOKENS, counts.cached_read),
        (UsageKey::CACHE_WRITE_TOKENS, counts.cache_write()),
        (UsageKey::CACHE_WRITE_5M_TOKENS, counts.cache_write_5m),
        (UsageKey::CACHE_WRITE_1H_TOKENS, counts.cache_write_1h),
        (UsageKey::INPUT_AUDIO_TOKENS, counts.audio_in),
        (UsageKey::INPUT_IMAGE_TOKENS, counts.image_in),
        (UsageKey::OUTPUT_REASONING_TOKENS, counts.reasoning),
        (UsageKey::OUTPUT_AUDIO_TOKENS, counts.audio_out),
        (UsageKey::OUTPUT_IMAGE_TOKENS, counts.image_out),
    ];
    let mut usage = totals_of(counts);
    for (key, count) in subsets.into_iter().filter(|(_, count)| *count > 0) {
        usage.insert(key, float(count));
    }
    usage
}

/// Exact below 2⁵³ tokens.
fn float(count: u64) -> f64 {
    count as f64
}

/// Rounds to the nearest pico-dollar: below 9,000 USD the float is nearer than half of one, so the sum comes out exact.
fn picos(usd: f64) -> Option<PicoUsd> {
    let picos = (usd * 1e12).round();
    (0.0..1e22)
        .contains(&picos)
        .then(|| PicoUsd::from_picos(picos as i128))
}

/// A price table that cannot be read.
#[derive(Clone, Debug)]
pub struct InvalidPrices(genai_prices::Error);

impl fmt::Display for InvalidPrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a price table: {}", self.0)
    }
}

impl Error for InvalidPrices {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}
