//! Prices that can be replaced while the process runs.

mod book;
mod genai;
mod price;
mod tariff;

pub use book::{PriceBook, PriceQuery};
pub use genai::{GenaiBook, InvalidPrices};
pub use price::Price;
pub(crate) use tariff::PricedAs;

use arc_swap::ArcSwap;
use std::{collections::HashMap, fmt, sync::Arc, time::SystemTime};
use tower_ai_core::{NanoUsd, PicoUsd, TokenCounts, WallClock};

/// Prices for estimates and for settlement. Clones are handles to the same prices: what is set through one is seen
/// by all, from the next call on, without a lock or a restart.
///
/// Your own prices come first, then the table.
///
/// ```
/// use tower_ai_core::{TokenCounts, usd};
/// use tower_ai_usage::{Price, PriceQuery, Prices};
///
/// let prices = Prices::bundled()
///     .with_price("gpt-5", Price::per_million(usd!(1.10), usd!(9.00)))
///     .free("llama-70b-on-our-own-machines");
/// let counts = TokenCounts::new(1_200, 600);
/// assert_eq!(prices.price(&PriceQuery::new("gpt-5"), &counts), Some(usd!(0.006_72)));
/// assert_eq!(prices.price(&PriceQuery::new("no such model"), &counts), None);
/// ```
#[derive(Clone)]
pub struct Prices(Arc<ArcSwap<Table>>);

#[derive(Clone)]
struct Table {
    own: HashMap<Box<str>, Price>,
    book: Option<Arc<dyn PriceBook>>,
    clock: WallClock,
}

impl Prices {
    /// The table that comes with this release, see [`GenaiBook::bundled`].
    pub fn bundled() -> Self {
        Self::from_book(GenaiBook::bundled())
    }

    /// The prices of a table of yours.
    pub fn from_book(book: impl PriceBook) -> Self {
        Self::from_table(Some(Arc::new(book)))
    }

    /// No table: only what is set with [`with_price`](Self::with_price) has a price.
    pub fn none() -> Self {
        Self::from_table(None)
    }

    fn from_table(book: Option<Arc<dyn PriceBook>>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Table {
            own: HashMap::new(),
            book,
            clock: WallClock::system(),
        })))
    }

    /// Sets your own price for a model, by the name it is asked for with (or an upstream's `priced_as`), at every
    /// provider and service tier. See [`set_price`](Self::set_price).
    pub fn with_price(self, model: impl Into<Box<str>>, price: Price) -> Self {
        self.set_price(model, price);
        self
    }

    /// A model that costs nothing: self-hosted, or paid for in another way. Its tokens still count.
    pub fn free(self, model: impl Into<Box<str>>) -> Self {
        self.with_price(model, Price::FREE)
    }

    /// Reads dates from another clock: prices change on dates and at times of day.
    pub fn with_clock(self, clock: WallClock) -> Self {
        self.change(|table| table.clock = clock.clone());
        self
    }

    /// Sets or replaces your own price for a model while calls are running.
    pub fn set_price(&self, model: impl Into<Box<str>>, price: Price) {
        let model = model.into();
        self.change(|table| {
            table.own.insert(model.clone(), price);
        });
    }

    /// Replaces the table while calls are running; your own prices stay.
    ///
    /// ```
    /// use tower_ai_usage::{GenaiBook, Prices};
    ///
    /// let prices = Prices::bundled();
    /// # let fetched = "[]";
    /// match GenaiBook::from_json(fetched) {
    ///     Ok(newer) => prices.set_book(newer),
    ///     Err(error) => eprintln!("the old prices stay: {error}"),
    /// }
    /// ```
    pub fn set_book(&self, book: impl PriceBook) {
        let book: Arc<dyn PriceBook> = Arc::new(book);
        self.change(|table| table.book = Some(book.clone()));
    }

    /// What these counts cost, rounded up once; `None` when there is no price.
    pub fn price(&self, query: &PriceQuery<'_>, counts: &TokenCounts) -> Option<NanoUsd> {
        let table = self.0.load();
        let price = match table.own_price(query.model, counts) {
            Some(own) => own,
            None => table.book_price(query, counts),
        };
        price.and_then(PicoUsd::round_up)
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.0.load().clock.now()
    }

    /// May run `change` more than once, when several threads change prices.
    fn change(&self, change: impl Fn(&mut Table)) {
        self.0.rcu(|table| {
            let mut table = Table::clone(table);
            change(&mut table);
            table
        });
    }
}

impl Table {
    /// Outer `None`: there is no price of your own. Inner `None`: the sum does not fit.
    fn own_price(&self, model: &str, counts: &TokenCounts) -> Option<Option<PicoUsd>> {
        self.own.get(model).map(|price| price.of(counts))
    }

    fn book_price(&self, query: &PriceQuery<'_>, counts: &TokenCounts) -> Option<PicoUsd> {
        self.book.as_ref().and_then(|book| book.price(query, counts))
    }
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.0.load();
        f.debug_struct("Prices")
            .field("own", &table.own.len())
            .field("has_book", &table.book.is_some())
            .finish_non_exhaustive()
    }
}
