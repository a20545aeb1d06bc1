//! The layer and its settings.

use crate::{Limits, MissingKey, RateLimit, Store, limit::LimitSet};
use std::sync::Arc;
use tower_ai_core::{ConfigError, Plans, WallClock};
use tower_layer::Layer;

/// Applies [`RateLimit`].
///
/// All services that a layer and its clones make share the limits of its store.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RateLimitLayer<St> {
    store: St,
    rules: Arc<Rules>,
}

impl<St: Store> RateLimitLayer<St> {
    /// Limits by plan, or one set of limits for all callers, kept in `store`.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the first limit that cannot work: `plans.free.rpm: refill is zero`.
    pub fn new(store: St, limits: impl Into<Plans<Limits>>) -> Result<Self, ConfigError> {
        let plans = limits
            .into()
            .try_map(|plan, limits| limits.build(plan).map(Arc::new))?;
        Ok(Self {
            store,
            rules: Arc::new(Rules {
                plans,
                missing_key: MissingKey::default(),
                outage: Outage::default(),
                ietf_headers: true,
                max_output_tokens: None,
                wall_clock: WallClock::system(),
            }),
        })
    }
}

impl<St> RateLimitLayer<St> {
    /// What happens to a request that lacks the key of a limit. Default: [`MissingKey::Refuse`].
    pub fn on_missing_key(self, rule: MissingKey) -> Self {
        self.with(|rules| rules.missing_key = rule)
    }

    /// What happens to a request that the store cannot decide. Default: [`Outage::Open`].
    pub fn outage(self, rule: Outage) -> Self {
        self.with(|rules| rules.outage = rule)
    }

    /// Whether `RateLimit` and `RateLimit-Policy` are sent. Default: they are.
    pub fn ietf_headers(self, sent: bool) -> Self {
        self.with(|rules| rules.ietf_headers = sent)
    }

    /// The most output tokens that are reserved for one request, whatever its own bound says. What is generated
    /// beyond is counted when it is known. Default: the bound, or the estimate, as it is.
    pub fn max_output_tokens(self, tokens: u64) -> Self {
        self.with(|rules| rules.max_output_tokens = Some(tokens))
    }

    /// The clock that `X-RateLimit-Reset` is told by. Default: the machine's.
    pub fn wall_clock(self, clock: WallClock) -> Self {
        self.with(|rules| rules.wall_clock = clock)
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl<S, St: Store> Layer<S> for RateLimitLayer<St> {
    type Service = RateLimit<S, St>;

    fn layer(&self, inner: S) -> RateLimit<S, St> {
        RateLimit::new(inner, self.store.clone(), self.rules.clone())
    }
}

/// What happens to a request that the store cannot decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outage {
    /// It passes, and nothing is said of limits.
    #[default]
    Open,
    /// 503, code `limiter_unavailable`.
    Closed,
}

/// What a layer was set to.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) plans: Plans<Arc<LimitSet>>,
    pub(crate) missing_key: MissingKey,
    pub(crate) outage: Outage,
    pub(crate) ietf_headers: bool,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) wall_clock: WallClock,
}
