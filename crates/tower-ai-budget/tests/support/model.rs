//! An exact model.
