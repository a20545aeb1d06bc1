//! Whole stacks over real sockets; see `tests/`.
