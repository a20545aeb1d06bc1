//! Where limits are kept, and what a store answers.

pub(crate) mod memory;

use crate::{Limit, MAX_LIMITS, Scope};
use std::{fmt, time::Duration};
use tower_ai_core::Step;

/// Keeps the state of limits and decides.
///
/// Clones share their state. No method takes the time: the store's own clock decides, and what a caller needs to
/// know of time comes back as durations.
pub trait Store: Clone + Send + Sync + 'static {
    /// What the store knows a [`Scope`] by.
    type Key: Copy + fmt::Debug + Send + Sync + Unpin + 'static;

    /// A decision that comes later. Dropping it must not leak what was taken.
    type Future: Future<Output = Verdict> + Send;

    /// The key of a scope. Different scopes have different keys, whatever their values are made of.
    fn key(&self, scope: Scope<'_>) -> Self::Key;

    /// Takes the cost of every limit, or nothing at all, in one step.
    fn take(&self, set: &PerLimit<Take<'_, Self::Key>>) -> Step<Verdict, Self::Future>;

    /// Corrects what was taken; fire and forget. It must not block: it runs in a `Drop`.
    fn correct(&self, corrections: &PerLimit<Correction<'_, Self::Key>>);
}

/// What a request takes of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a, K> {
    /// Whose.
    pub key: K,
    /// Of which limit.
    pub limit: &'a Limit,
    /// How many units; 0 always fits.
    pub cost: u64,
}

/// A later change of what was taken of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Correction<'a, K> {
    /// Whose.
    pub key: K,
    /// Of which limit.
    pub limit: &'a Limit,
    /// The mark of the admission, see [`LimitState::mark`].
    pub mark: Mark,
    /// Units used beyond those taken; less than 0 for units to give back. What was used is counted even if it does
    /// not fit; what is given back fills up to the capacity at most.
    pub delta: i64,
}

/// A store's answer.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// All was taken. One state for each limit asked for, in that order.
    Admitted(PerLimit<LimitState>),
    /// Nothing was taken. One state for each limit asked for, in that order.
    Refused(PerLimit<LimitState>),
    /// The store cannot tell. That is no "no": the layer's [`Outage`](crate::Outage) rule applies.
    Unavailable {
        /// Why, in a word or two: a label, from a small fixed set.
        reason: &'static str,
    },
}

/// One limit, as of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// Whether the cost fits.
    pub room: Room,
    /// Whole units left: after an admission without what it took.
    pub remaining: u64,
    /// Time until the limit is full.
    pub reset_after: Duration,
    /// What a [`Correction`] hands back, so that only what is still counted is given back.
    pub mark: Mark,
}

/// Whether a cost fits into a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It does.
    Enough,
    /// It does after exactly this time, if nothing else is taken.
    After(Duration),
    /// It never does: it is above the capacity.
    Never,
}

/// A store's own note of when something was taken. For a token bucket it has no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub u64);

/// Up to [`MAX_LIMITS`] values, one for each limit of a set, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct PerLimit<T> {
    values: [Option<T>; MAX_LIMITS],
}

impl<T> PerLimit<T> {
    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.values.iter().map_while(Option::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().map_while(Option::as_mut)
    }

    /// The value at a position.
    pub fn get(&self, position: usize) -> Option<&T> {
        self.values.get(position)?.as_ref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values[0].is_none()
    }
}

/// # Panics
/// Above [`MAX_LIMITS`] values.
impl<T> FromIterator<T> for PerLimit<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter().fuse();
        let filled = Self {
            values: std::array::from_fn(|_| values.next()),
        };
        assert!(values.next().is_none(), "a set has at most {MAX_LIMITS} limits");
        filled
    }
}
