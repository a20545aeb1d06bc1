//! The pieces of the reference gateway.
