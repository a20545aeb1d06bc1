//! The app: each function is a stack to copy.

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use std::time::Duration;
use tower::ServiceBuilder;
use tower_ai_budget::{Budget, BudgetLayer, MemoryLedger};
use tower_ai_core::{Caller, ConfigError, Plans, usd};
use tower_ai_failover::{FailoverLayer, Routes, Upstream, UpstreamClient};
use tower_ai_ratelimit::{Limits, MINUTE, MemoryStore, RateLimitLayer, SECOND, bucket};
use tower_ai_usage::{EstimateLayer, Prices, UsageLayer};
use tower_ttfb_watchdog::TtfbWatchdogLayer;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// All of them in one app, behind one authentication.
pub(crate) fn app(upstream: &str) -> Result<Router, BoxError> {
    Ok(Router::new()
        .merge(budget_alone()?)
        .merge(limiter_alone()?)
        .merge(governed(upstream)?)
        .layer(from_fn(authenticate)))
}

/// A budget around a handler that calls a model by its own means: each request is taken to cost the same.
fn budget_alone() -> Result<Router, ConfigError> {
    let budgets = Plans::fallback("free")
        .plan("free", Budget::daily(usd!(2.00)))
        .plan("pro", Budget::daily(usd!(20.00)).in_zone("Asia/Beirut"));
    let budget = BudgetLayer::new(MemoryLedger::new(), budgets)?.fixed_cost(usd!(0.0015));
    Ok(Router::new()
        .route("/api/ai/summarize", post(summarize))
        .layer(budget))
}

/// A limit per tenant around handlers that know nothing of AI.
fn limiter_alone() -> Result<Router, ConfigError> {
    let limits = Plans::fallback("free")
        .plan(
            "free",
            Limits::per_tenant().requests("rps", bucket(20).refill(2).per(SECOND)),
        )
        .plan(
            "growth",
            Limits::per_tenant().requests("rps", bucket(500).refill(50).per(SECOND)),
        );
    let limiter = RateLimitLayer::new(MemoryStore::new(), limits)?;
    Ok(Router::new()
        .route("/api/orders", get(|| async { "no orders" }))
        .layer(limiter))
}

/// The whole stack as a proxy: one base URL for the app's own clients, and for official SDKs.
fn governed(upstream: &str) -> Result<Router, BoxError> {
    let prices = Prices::bundled();
    let limits = Limits::per_tenant()
        .requests("rps", bucket(20).refill(2).per(SECOND))
        .tokens("tpm", bucket(100_000).refill(100_000).per(MINUTE));
    let routes = Routes::new().any([Upstream::openai("only", upstream).first_byte(Duration::from_secs(20))]);
    let governed = ServiceBuilder::new()
        .layer(EstimateLayer::new(&prices))
        .layer(RateLimitLayer::new(MemoryStore::new(), limits)?)
        .layer(BudgetLayer::new(MemoryLedger::new(), Budget::daily(usd!(2.00)))?)
        .layer(FailoverLayer::new(routes)?)
        .layer(UsageLayer::new(&prices))
        .layer(TtfbWatchdogLayer::new())
        .service(UpstreamClient::new()?);
    Ok(Router::new().route_service("/v1/{*path}", governed))
}

async fn summarize(text: String) -> String {
    format!("{} words, in short: …", text.split_whitespace().count())
}

/// Stands for your authentication: it knows the caller and puts `Caller` into the request's extensions.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let user = request
        .headers()
        .get("x-user")
        .and_then(|user| user.to_str().ok());
    match user.map(Caller::new) {
        Some(Ok(caller)) => {
            request.extensions_mut().insert(caller);
        }
        Some(Err(error)) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        None => {} // the layers refuse who has no name, in the caller's shape
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use tower::ServiceExt;

    async fn ask(app: &Router, method: &str, path: &str, user: Option<&str>) -> Response {
        let request = Request::builder().method(method).uri(path);
        let request = match user {
            Some(user) => request.header("x-user", user),
            None => request,
        };
        app.clone()
            .oneshot(request.body(Body::from("a b c")).unwrap())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_budget_alone_serves_until_the_day_is_spent() {
        let app = app("http://127.0.0.1:9/v1").unwrap();
        let affordable = 1_333; // of 0.0015 USD in 2.00 USD
        for _ in 0..affordable {
            assert_eq!(
                ask(&app, "POST", "/api/ai/summarize", Some("ann")).await.status(),
                StatusCode::OK
            );
        }
        let refused = ask(&app, "POST", "/api/ai/summarize", Some("ann")).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["content-type"], "application/problem+json");
        assert_eq!(
            ask(&app, "POST", "/api/ai/summarize", Some("bob")).await.status(),
            StatusCode::OK
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_limiter_alone_serves_a_burst_and_then_the_rate() {
        let app = app("http://127.0.0.1:9/v1").unwrap();
        for _ in 0..20 {
            assert_eq!(
                ask(&app, "GET", "/api/orders", Some("ann")).await.status(),
                StatusCode::OK
            );
        }
        assert_eq!(
            ask(&app, "GET", "/api/orders", Some("ann")).await.headers()["retry-after"],
            "1"
        );
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(
            ask(&app, "GET", "/api/orders", Some("ann")).await.status(),
            StatusCode::OK
        );
    }

    #[tokio::test]
    async fn who_has_no_name_is_refused_in_the_callers_shape() {
        let app = app("http://127.0.0.1:9/v1").unwrap();
        assert_eq!(
            ask(&app, "GET", "/api/orders", None).await.status(),
            StatusCode::UNAUTHORIZED
        );
    }
}
