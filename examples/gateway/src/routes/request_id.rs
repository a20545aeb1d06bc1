//! Names for requests.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
};

/// Ids that no two requests share: a number drawn at the start of the process, and a count.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: u64,
    count: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        Self {
            process: RandomState::new().hash_one(0), // the seed is random, and so is the hash
            count: AtomicU64::new(1),
        }
    }

    pub(super) fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("req_{:016x}{count:x}", self.process)
    }
}
