//! The tower-ai layers on a bare hyper service, server and client side
fn main() {}
