//! A price of your own, in integers.

use tower_ai_core::{NanoUsd, PicoUsd, TokenCounts};

/// A price per million tokens.
///
/// Cache reads and writes cost the input price unless they are given. A negative price counts as zero.
///
/// ```
/// use tower_ai_core::usd;
/// use tower_ai_usage::Price;
///
/// let with_a_cache = Price::per_million(usd!(3.00), usd!(15.00))
///     .cached_read(usd!(0.30))
///     .cache_write(usd!(3.75))
///     .cache_write_1h(usd!(6.00));
/// # let _ = with_a_cache;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    input: NanoUsd,
    output: NanoUsd,
    cached_read: Option<NanoUsd>,
    cache_write: Option<NanoUsd>,
    cache_write_1h: Option<NanoUsd>,
}

impl Price {
    /// Nothing at all.
    pub const FREE: Self = Self::per_million(NanoUsd::ZERO, NanoUsd::ZERO);

    /// Dollars for a million tokens of input and of output.
    pub const fn per_million(input: NanoUsd, output: NanoUsd) -> Self {
        Self {
            input,
            output,
            cached_read: None,
            cache_write: None,
            cache_write_1h: None,
        }
    }

    /// Dollars for a million tokens read from a prompt cache.
    pub const fn cached_read(mut self, price: NanoUsd) -> Self {
        self.cached_read = Some(price);
        self
    }

    /// Dollars for a million tokens written to a prompt cache.
    pub const fn cache_write(mut self, price: NanoUsd) -> Self {
        self.cache_write = Some(price);
        self
    }

    /// Dollars for a million tokens written to a prompt cache that lives an hour, where that costs more.
    pub const fn cache_write_1h(mut self, price: NanoUsd) -> Self {
        self.cache_write_1h = Some(price);
        self
    }

    /// What these counts cost, rounded up to whole pico-dollars; `None` when the sum does not fit.
    pub(super) fn of(&self, counts: &TokenCounts) -> Option<PicoUsd> {
        let cached_read = self.cached_read.unwrap_or(self.input);
        let cache_write = self.cache_write.unwrap_or(self.input);
        let cache_write_1h = self.cache_write_1h.unwrap_or(cache_write);
        let parts = [
            (counts.input_uncached(), self.input),
            (counts.cached_read, cached_read),
            (counts.cache_write_5m, cache_write),
            (counts.cache_write_other, cache_write),
            (counts.cache_write_1h, cache_write_1h),
            (counts.output, self.output),
        ];
        // Nano-dollars a million are 10⁻¹⁵ USD each: a thousandth of a pico-dollar.
        let femtos = parts.into_iter().try_fold(0_i128, |sum, (tokens, price)| {
            let price = i128::from(price.nanos().max(0));
            sum.checked_add(price.checked_mul(i128::from(tokens))?)
        })?;
        Some(PicoUsd::from_picos(femtos.checked_add(999)? / 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_ai_core::usd;

    #[test]
    fn the_cost_is_exact_and_rounded_up_once() {
        let price = Price::per_million(usd!(0.50), usd!(1.50));
        let cost = |input, output| price.of(&TokenCounts::new(input, output)).unwrap().round_up();
        assert_eq!(cost(1_200, 600), Some(usd!(0.0015)));
        assert_eq!(cost(0, 0), Some(NanoUsd::ZERO));

        let odd = Price::per_million(NanoUsd::from_nanos(1), NanoUsd::ZERO);
        assert_eq!(odd.of(&TokenCounts::new(1, 0)), Some(PicoUsd::from_picos(1)));
        assert_eq!(
            odd.of(&TokenCounts::new(1_000_001, 0)),
            Some(PicoUsd::from_picos(1_001))
        );
    }

    #[test]
    fn cache_reads_and_writes_cost_the_input_price_unless_given() {
        let mut counts = TokenCounts::new(100, 0);
        (counts.cached_read, counts.cache_write_5m, counts.cache_write_1h) = (60, 20, 10);
        let plain = Price::per_million(usd!(3), usd!(15));
        assert_eq!(plain.of(&counts), plain.of(&TokenCounts::new(100, 0)));

        let cached = plain
            .cached_read(usd!(0.30))
            .cache_write(usd!(3.75))
            .cache_write_1h(usd!(6));
        let picos = 10 * 3_000_000 + 60 * 300_000 + 20 * 3_750_000 + 10 * 6_000_000;
        assert_eq!(cached.of(&counts), Some(PicoUsd::from_picos(picos)));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_no_price() {
        let price = Price::per_million(NanoUsd::MAX, NanoUsd::MAX);
        assert_eq!(price.of(&TokenCounts::new(u64::MAX, u64::MAX)), None);
    }
}
