//! Tower layer: several upstreams for the same model, one shared deadline, failover before the first content
