//! The governed stack. This is the part to copy.

use crate::{
    config::{Config, Speaks},
    linger::Lingering,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use std::{collections::BTreeMap, convert::Infallible, time::Duration};
use tower::{Service, ServiceBuilder, ServiceExt, util::BoxCloneSyncService};
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{BoxError, ConfigError, Plans};
use tower_ai_failover::{FailoverLayer, Routes, Upstream, UpstreamClient};
use tower_ai_ratelimit::{Limits, MINUTE, MemoryStore, RateLimitLayer, SECOND, bucket};
use tower_ai_usage::{EstimateLayer, Price, Prices, Unpriced, UsageLayer};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

/// Longest request body. The layer's default of 256 KiB suits chat; a context of a million tokens is some 4 MiB of text,
/// and images travel inside the body, a third larger than they are.
const BODY_LIMIT: usize = 8 << 20;

/// The stack as one type, whichever of its layers are on.
pub type Governed =
    BoxCloneSyncService<Request<Lingering>, Response<UnsyncBoxBody<Bytes, BoxError>>, Infallible>;

/// Builds the stack; every part of the configuration is checked on the way.
///
/// # Errors
/// [`ConfigError`] with the path of what cannot work.
pub fn governed(
    config: &Config,
    budgets: Option<BudgetLayer<MemoryLedger>>,
) -> Result<Governed, ConfigError> {
    let prices = prices(config);
    // Once per call, from here …
    let estimate = EstimateLayer::new(&prices)
        .body_limit(BODY_LIMIT)
        .unpriced(unpriced(config));
    let limits =
        || RateLimitLayer::new(MemoryStore::new(), limits(config)).map_err(|error| error.within("limits"));
    // … and once per attempt, from the second layer on.
    let upstreams = ServiceBuilder::new()
        .layer(FailoverLayer::new(routes(config))?)
        .layer(UsageLayer::new(&prices))
        .layer(TtfbWatchdogLayer::new()) // next to the wire: nothing between it and the client may buffer
        .service(UpstreamClient::new()?);

    let stack = ServiceBuilder::new().layer(estimate);
    Ok(match (config.limits.enabled, budgets) {
        (true, Some(budgets)) => boxed(stack.layer(limits()?).layer(budgets).service(upstreams)),
        (true, None) => boxed(stack.layer(limits()?).service(upstreams)),
        (false, Some(budgets)) => boxed(stack.layer(budgets).service(upstreams)),
        (false, None) => boxed(stack.service(upstreams)),
    })
}

/// The budgets, if they are on: a layer of the stack, and what `GET /v1/usage` reads.
///
/// # Errors
/// [`ConfigError`] with the path of what cannot work.
pub fn budgets(
    config: &Config,
    ledger: &MemoryLedger,
) -> Result<Option<BudgetLayer<MemoryLedger>>, ConfigError> {
    if !config.budgets.enabled {
        return Ok(None);
    }
    let mut plans = Plans::fallback(&config.budgets.fallback);
    for (name, plan) in &config.budgets.plans {
        let budget = Budget::daily(plan.daily_usd)
            .request_cap(plan.request_cap_usd)
            .alert_at_percent(plan.alert_at_percent)
            .in_zone(&plan.zone);
        plans = plans.plan(name, budget);
    }
    let layer = BudgetLayer::new(ledger.clone(), plans).map_err(|error| error.within("budgets"))?;
    Ok(Some(layer))
}

/// What cannot be priced cannot be governed.
fn unpriced(config: &Config) -> Unpriced {
    if config.budgets.enabled {
        Unpriced::Refuse
    } else {
        Unpriced::Pass
    }
}

fn prices(config: &Config) -> Prices {
    let prices = Prices::bundled();
    for (model, price) in &config.prices {
        let price = Price::per_million(price.input_usd_per_million, price.output_usd_per_million);
        prices.set_price(model.as_str(), price);
    }
    prices
}

fn limits(config: &Config) -> Plans<Limits> {
    let mut plans = Plans::fallback(&config.limits.fallback);
    for (name, plan) in &config.limits.plans {
        let requests = bucket(plan.burst)
            .refill(plan.refill)
            .per(SECOND * plan.per_seconds);
        let mut limits = Limits::per_tenant().requests("requests", requests);
        if let Some(tokens) = plan.tokens_per_minute {
            limits = limits.tokens("tokens", bucket(tokens).refill(tokens).per(MINUTE));
        }
        plans = plans.plan(name, limits);
    }
    plans
}

fn routes(config: &Config) -> Routes {
    let mut models: BTreeMap<&str, Vec<Upstream>> = BTreeMap::new();
    let mut routes = Routes::new();
    for upstream in &config.upstreams {
        if upstream.models.is_empty() {
            routes = routes.any([candidate(upstream)]);
        }
        for model in &upstream.models {
            let candidate = match upstream.named.get(model) {
                Some(name) => candidate(upstream).named(name),
                None => candidate(upstream),
            };
            models.entry(model).or_default().push(candidate);
        }
    }
    for (model, candidates) in models {
        routes = routes.model(model, candidates);
    }
    routes
}

fn candidate(config: &crate::config::Upstream) -> Upstream {
    let mut upstream = match config.dialect {
        Speaks::Openai => Upstream::openai(&config.id, &config.base_url),
        Speaks::Anthropic => Upstream::anthropic(&config.id, &config.base_url),
    };
    upstream = upstream.weight(config.weight);
    if let Some(key) = &config.key {
        upstream = upstream.key(key);
    }
    if let Some(name) = &config.key_env {
        upstream = upstream.key_from_env(name);
    }
    if let Some(region) = &config.region {
        upstream = upstream.region(region.as_str());
    }
    if let Some(ms) = config.first_byte_ms {
        upstream = upstream.first_byte(Duration::from_millis(ms));
    }
    upstream
}

fn boxed<S, B>(service: S) -> Governed
where
    S: Service<Request<Lingering>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    BoxCloneSyncService::new(
        service.map_response(|response| response.map(|body| body.map_err(Into::into).boxed_unsync())),
    )
}
