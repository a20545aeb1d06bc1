//! An OpenAI- and Anthropic-compatible gateway in front of real or simulated upstreams: the reference stack, to be read
//! and copied. [`stack`] is the part to start with; the rest is what any server needs around it.

pub mod auth;
pub mod config;
pub mod demo;
pub mod linger;
pub mod routes;
pub mod server;
pub mod stack;
pub mod terminal;
