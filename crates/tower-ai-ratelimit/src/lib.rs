//! Tower layer: per-tenant rate limits for requests and tokens, several limits decided all or nothing
