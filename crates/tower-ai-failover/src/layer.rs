//! The layer and its settings.

use crate::{
    Failover,
    backoff::Chance,
    routes::{Routes, Table},
    select::DEFAULT_ATTEMPTS,
    share::{DEFAULT_DEADLINE, DEFAULT_WAITING},
};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tower_ai_core::ConfigError;
use tower_layer::Layer;

/// Puts failover around a service that sends one request to one upstream.
///
/// ```
/// # fn main() -> Result<(), tower_ai_core::ConfigError> {
/// use std::time::Duration;
/// use tower_ai_failover::{FailoverLayer, Routes, Upstream};
///
/// let routes = Routes::new().model("gpt-5", [
///     Upstream::openai("primary", "https://a.example/v1"),
///     Upstream::openai("reserve", "https://b.example/v1").weight(10),
/// ]);
/// let layer = FailoverLayer::new(routes)?
///     .deadline(Duration::from_secs(120))
///     .attempts(3)
///     .waiting(Duration::from_secs(10));
/// # let _ = layer;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FailoverLayer {
    settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) table: Arc<Table>,
    models: Arc<[Arc<str>]>,
    pub(crate) chance: Arc<Chance>,
    pub(crate) deadline: Duration,
    pub(crate) deadline_ends_streams: bool,
    pub(crate) waiting: Duration,
    pub(crate) attempts: u32,
    pub(crate) replay_limit: usize,
    pub(crate) commit_at_first_byte: bool,
    unary_grpc: HashSet<Box<str>>,
}

impl Settings {
    /// Whether a gRPC call to this path is read whole, so that it can be sent again.
    pub(crate) fn is_unary_grpc(&self, path: &str) -> bool {
        self.unary_grpc.contains(path)
    }
}

/// Longer than any call: times beyond it are cut to it, so that no sum of them leaves the clock's range.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The largest request body that is kept to be sent again, if nothing else is said.
const DEFAULT_REPLAY_BYTES: usize = 32 * 1024 * 1024;

impl FailoverLayer {
    /// Failover over these routes.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of what cannot work: `routes.gpt-5.upstreams[1].key: …`.
    pub fn new(routes: Routes) -> Result<Self, ConfigError> {
        let models = routes.models().map(Arc::from).collect();
        Ok(Self {
            settings: Arc::new(Settings {
                table: Arc::new(routes.check()?),
                models,
                chance: Arc::new(Chance::random()),
                deadline: DEFAULT_DEADLINE,
                deadline_ends_streams: true,
                waiting: DEFAULT_WAITING,
                attempts: DEFAULT_ATTEMPTS,
                replay_limit: DEFAULT_REPLAY_BYTES,
                commit_at_first_byte: false,
                unary_grpc: HashSet::new(),
            }),
        })
    }

    /// The models that have a route of their own, in the order given: what `GET /v1/models` lists.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.settings.models.iter().map(|model| &**model)
    }

    /// The deadline of calls that bring none ([`Deadline`](tower_ai_core::Deadline)), a year at most. Default 540 s.
    pub fn deadline(self, limit: Duration) -> Self {
        self.with(|settings| settings.deadline = limit.min(FAR))
    }

    /// Whether the deadline also ends an answer that is under way: a stream by an error event, anything else by an error.
    /// Default true.
    pub fn deadline_ends_streams(self, ends: bool) -> Self {
        self.with(|settings| settings.deadline_ends_streams = ends)
    }

    /// The longest that a call waits between attempts, all its waits together. Default 30 s.
    pub fn waiting(self, limit: Duration) -> Self {
        self.with(|settings| settings.waiting = limit.min(FAR))
    }

    /// The most attempts of a call, at all candidates together; at least 1. Default 5.
    pub fn attempts(self, most: u32) -> Self {
        self.with(|settings| settings.attempts = most.max(1))
    }

    /// The largest request body, in bytes, that is kept to be sent again; a larger one gets one attempt. Default 32 MiB.
    pub fn replay_limit(self, bytes: usize) -> Self {
        self.with(|settings| settings.replay_limit = bytes)
    }

    /// Whether an answer is passed on from its first byte on, as by a plain proxy: a stream that fails before its first
    /// content, or a document that breaks off, is not failed over then. Default false.
    pub fn commit_at_first_byte(self, commit: bool) -> Self {
        self.with(|settings| settings.commit_at_first_byte = commit)
    }

    /// gRPC methods with one request message, by path (`/package.Service/Method`): such a request is read whole and can be
    /// sent again. Any other gRPC call may be a conversation; it gets one attempt. Only name methods that may run twice.
    pub fn unary_grpc(self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let paths = paths.into_iter().map(|path| path.into().into_boxed_str());
        self.with(|settings| settings.unary_grpc.extend(paths))
    }

    /// Makes jitter repeat itself, for tests and simulations.
    pub fn seed(self, seed: u64) -> Self {
        self.with(|settings| settings.chance = Arc::new(Chance::seeded(seed)))
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S> Layer<S> for FailoverLayer {
    type Service = Failover<S>;

    fn layer(&self, inner: S) -> Failover<S> {
        Failover::new(inner, self.settings.clone())
    }
}
