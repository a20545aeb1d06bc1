//! The tower-ai layers in an existing axum app
fn main() {}
