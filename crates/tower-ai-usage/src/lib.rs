//! Tower layers that estimate a model call before it is sent and read its usage from the answer.

mod asked;
mod estimate;
mod observe;
mod prices;

pub use estimate::{EstimateFuture, EstimateLayer, Estimator, Unpriced};
pub use prices::{GenaiBook, InvalidPrices, Price, PriceBook, PriceQuery, Prices};
