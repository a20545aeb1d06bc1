//! Tower layers that estimate a model call before it is sent and read its usage from the answer.

mod prices;

pub use prices::{GenaiBook, InvalidPrices, Price, PriceBook, PriceQuery, Prices};
