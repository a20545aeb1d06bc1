//! A decision that may be there at once.

/// The answer of a store: there now, or a future of it.
///
/// `Now` lets a layer call its inner service inside `call` and clone nothing; only `Later` has to take the polled
/// instance into its future.
#[derive(Debug)]
pub enum Step<T, F> {
    /// Decided.
    Now(T),
    /// Being decided.
    Later(F),
}
