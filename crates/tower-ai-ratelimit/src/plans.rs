//! The plans of the reference stack.

use crate::{Limits, SECOND, bucket};
use tower_ai_core::Plans;

/// The plans of the reference stack, with one limit of requests, `requests`, for each tenant:
///
/// | plan | burst | refill per second |
/// |---|---|---|
/// | `free`, the fallback | 20 | 2 |
/// | `starter` | 100 | 10 |
/// | `pro` (our figures) | 200 | 20 |
/// | `growth` | 500 | 50 |
/// | `enterprise` | 2,000 | 200 |
///
/// A bucket of each is full after 10 s.
///
/// ```
/// use tower_ai_ratelimit::{MemoryStore, RateLimitLayer, reference_plans};
///
/// let layer = RateLimitLayer::new(MemoryStore::new(), reference_plans())?;
/// # Ok::<(), tower_ai_core::ConfigError>(())
/// ```
pub fn reference_plans() -> Plans<Limits> {
    let requests =
        |burst, refill| Limits::per_tenant().requests("requests", bucket(burst).refill(refill).per(SECOND));
    Plans::fallback("free")
        .plan("free", requests(20, 2))
        .plan("starter", requests(100, 10))
        .plan("pro", requests(200, 20))
        .plan("growth", requests(500, 50))
        .plan("enterprise", requests(2_000, 200))
}
