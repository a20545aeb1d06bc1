//! The price of one attempt.

use super::{PriceQuery, Prices};
use std::{sync::Arc, time::SystemTime};
use tower_ai_core::{Dialect, NanoUsd, PicoUsd, Tariff, TokenCounts};

/// What an attempt is priced as.
#[derive(Clone, Debug)]
pub(crate) struct PricedAs {
    pub(crate) provider: Option<Arc<str>>,
    pub(crate) dialect: Dialect,
    /// The name in price tables at this upstream, or the name that was asked for; unknown if the request was not read.
    pub(crate) asked: Option<Arc<str>>,
    /// The model that the answer names.
    pub(crate) echoed: Option<Arc<str>>,
    /// The service tier that the answer names, else the one that was asked for.
    pub(crate) tier: Option<Arc<str>>,
    pub(crate) at: SystemTime,
}

impl Prices {
    /// A function of counts, for those who settle.
    pub(crate) fn tariff(&self, priced: PricedAs) -> Tariff {
        let prices = self.clone();
        Arc::new(move |counts| prices.price_as(&priced, counts))
    }

    /// Your own price for the name that was asked for; else the price of what served; else of what was asked for.
    fn price_as(&self, priced: &PricedAs, counts: &TokenCounts) -> Option<NanoUsd> {
        let query = |model| PriceQuery {
            model,
            provider: priced.provider.as_deref(),
            dialect: Some(priced.dialect),
            tier: priced.tier.as_deref(),
            at: priced.at,
        };
        let asked = priced.asked.as_deref();
        if let Some(own) = asked.and_then(|model| self.0.load().own_price(model, counts)) {
            return own.and_then(PicoUsd::round_up);
        }
        let echoed = priced.echoed.as_deref();
        echoed
            .and_then(|model| self.price(&query(model), counts))
            .or_else(|| asked.and_then(|model| self.price(&query(model), counts)))
    }
}
