//! The gateway as it is shipped: the binary, over real sockets, with real clients.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod failover;
mod hang_up;
mod input;
mod money;
mod pages;
mod sdk;
mod shutdown;
mod start;
mod support;
