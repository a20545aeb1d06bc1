//! An OpenAI- and Anthropic-compatible gateway: the reference stack, runnable and short enough to copy
fn main() {}
