//! The gateway as it is shipped: the binary, over real sockets, with real clients.

mod failover;
mod hang_up;
mod input;
mod money;
mod pages;
mod sdk;
mod shutdown;
mod start;
mod support;
