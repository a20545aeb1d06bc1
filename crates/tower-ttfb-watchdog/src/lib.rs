//! Tower layer that gives up on a silent upstream at the first byte
