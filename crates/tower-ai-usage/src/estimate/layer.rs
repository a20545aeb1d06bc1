use super::{Estimator, judge::Rules, memory::Memory};
use crate::Prices;
use std::{sync::Arc, time::Duration};
use tower_ai_core::{ASSUMED_OUTPUT_TOKENS, MAX_ESTIMATE_TOKENS};
use tower_layer::Layer;

/// Longest request body that is read, unless set.
pub(crate) const BODY_LIMIT: usize = 256 * 1024;
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const MEMORY_LIMIT: u64 = 512 * 1024 * 1024;
/// The most that one image costs with most models; a file of many pages costs more.
const ATTACHMENT_TOKENS: u64 = 1_600;

/// What becomes of a call whose model has no known price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unpriced {
    /// It goes on without a cost: the budget decides.
    #[default]
    Pass,
    /// 404 `model_not_found`, at once.
    Refuse,
}

/// Reads the bodies of known AI calls, and says what each may cost. See the [crate](crate) for its place in a stack.
///
/// ```
/// use std::time::Duration;
/// use tower_ai_usage::{EstimateLayer, Prices, Unpriced};
///
/// let layer = EstimateLayer::new(&Prices::bundled())
///     .body_limit(8 * 1024 * 1024) // long contexts and images need more than the default of 256 KiB
///     .read_timeout(Duration::from_secs(10))
///     .assumed_output(2_000)
///     .unpriced(Unpriced::Refuse);
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EstimateLayer {
    settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) body_limit: usize,
    pub(super) read_timeout: Duration,
    pub(super) memory: Memory,
    pub(super) rules: Rules,
}

impl EstimateLayer {
    /// Estimates with these prices.
    pub fn new(prices: &Prices) -> Self {
        let rules = Rules {
            prices: prices.clone(),
            assumed_output: ASSUMED_OUTPUT_TOKENS,
            attachment_tokens: ATTACHMENT_TOKENS,
            unpriced: Unpriced::default(),
            own_counts_as: None,
        };
        Self {
            settings: Arc::new(Settings {
                body_limit: BODY_LIMIT,
                read_timeout: READ_TIMEOUT,
                memory: Memory::new(MEMORY_LIMIT),
                rules,
            }),
        }
    }

    /// Longest body that is read, in bytes: 256 KiB by default. A longer one is refused with 413 `body_too_large`
    /// before anything of it is parsed, and before anything is read if its length is announced.
    pub fn body_limit(self, bytes: usize) -> Self {
        self.with(|settings| settings.body_limit = bytes)
    }

    /// How long a body may take to arrive: 30 s by default. Then 408 `request_timeout`.
    pub fn read_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.read_timeout = timeout)
    }

    /// Bytes of bodies that may be in memory at once, over all clones and routes of this layer: 512 MiB by default.
    /// A call that finds it full waits as long as a read may take, then gets 503 `server_busy`.
    pub fn memory_limit(self, bytes: u64) -> Self {
        self.with(|settings| settings.memory = Memory::new(bytes))
    }

    /// Output tokens that are assumed for a call that sets no bound, for each choice: 600 by default.
    pub fn assumed_output(self, tokens: u64) -> Self {
        self.with(|settings| settings.rules.assumed_output = tokens.min(MAX_ESTIMATE_TOKENS))
    }

    /// Input tokens that are counted for an image, audio clip or file: 1,600 by default, which is the most that an
    /// image costs with most models. A file of many pages costs more.
    pub fn attachment_tokens(self, tokens: u64) -> Self {
        self.with(|settings| settings.rules.attachment_tokens = tokens)
    }

    /// What becomes of a call whose model has no known price: it passes without a cost by default.
    pub fn unpriced(self, rule: Unpriced) -> Self {
        self.with(|settings| settings.rules.unpriced = rule)
    }

    /// Also reads JSON bodies of calls that are *not* known AI calls, for counts that the caller brings in the members
    /// `input_tokens` and `max_output_tokens`; where one is missing, 1,200 and 600 are assumed. They are priced as
    /// `model`. For an endpoint of yours that calls a model itself.
    ///
    /// ```
    /// use tower_ai_usage::{EstimateLayer, Prices};
    ///
    /// // POST /api/ai/summarize with {"text": "…", "input_tokens": 900, "max_output_tokens": 250}
    /// let layer = EstimateLayer::new(&Prices::bundled()).own_counts("gpt-4o-mini");
    /// # let _ = layer;
    /// ```
    pub fn own_counts(self, model: impl Into<Arc<str>>) -> Self {
        let model = model.into();
        self.with(|settings| settings.rules.own_counts_as = Some(model))
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S> Layer<S> for EstimateLayer {
    type Service = Estimator<S>;

    fn layer(&self, inner: S) -> Estimator<S> {
        Estimator::new(inner, self.settings.clone())
    }
}
