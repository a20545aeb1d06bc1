//! The layer and its settings.

use crate::{
    Failover,
    routes::{Routes, Table},
};
use std::{sync::Arc, time::Duration};
use tower_ai_core::ConfigError;
use tower_layer::Layer;

/// Puts failover around a service that sends one request to one upstream.
#[derive(Clone, Debug)]
pub struct FailoverLayer {
    pub(crate) settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) table: Arc<Table>,
    pub(crate) models: Arc<[Arc<str>]>,
    pub(crate) deadline: Duration,
    pub(crate) replay_limit: usize,
}

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
                deadline: Duration::from_secs(540),
                replay_limit: 32 << 20,
            }),
        })
    }

    /// The models that have a route of their own, in the order given.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.settings.models.iter().map(|model| &**model)
    }
}

impl<S> Layer<S> for FailoverLayer {
    type Service = Failover<S>;

    fn layer(&self, inner: S) -> Failover<S> {
        Failover::new(inner, self.settings.clone())
    }
}
