//! The tower-ai layers around a tonic service, on the server and on the client side
fn main() {}
