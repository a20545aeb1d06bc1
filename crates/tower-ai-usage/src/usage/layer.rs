use super::Usage;
use crate::Prices;
use tower_layer::Layer;

/// Longest request body that is read to ask for usage in its stream, unless set.
const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Reads what each attempt at a known AI call used, and writes it into the call's meter. See the [crate](crate) for
/// its place in a stack.
///
/// ```
/// use tower_ai_usage::{Prices, UsageLayer};
///
/// let prices = Prices::bundled(); // the same as for Estimate
/// let layer = UsageLayer::new(&prices).body_limit(32 * 1024 * 1024);
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UsageLayer {
    settings: Settings,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) prices: Prices,
    pub(super) body_limit: usize,
}

impl UsageLayer {
    /// Prices what was used with these prices.
    pub fn new(prices: &Prices) -> Self {
        Self {
            settings: Settings {
                prices: prices.clone(),
                body_limit: BODY_LIMIT,
            },
        }
    }

    /// Longest request body that is read, in bytes: 8 MiB by default. Only bodies of calls that Estimate has not read,
    /// or whose stream is to tell its usage, are read. A longer one passes as it is, so that its stream may not tell
    /// what it used. (A body that Estimate read is not copied.)
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.settings.body_limit = bytes;
        self
    }
}

impl<S> Layer<S> for UsageLayer {
    type Service = Usage<S>;

    fn layer(&self, inner: S) -> Usage<S> {
        Usage::new(inner, self.settings.clone())
    }
}
