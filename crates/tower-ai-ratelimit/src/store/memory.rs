//! Limits in the memory of one process.

mod shard;
#[cfg(test)]
mod tests;

use crate::{
    Correction, Limit, LimitState, Mark, PerLimit, Room, Scope, Store, Take, Verdict,
    gcra::{Gcra, Short, Tat},
    observe,
};
use shard::{Place, Shard, Stored};
use std::{
    fmt,
    future::Ready,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tower_ai_core::Step;

/// Live keys of each kind that are told apart, unless set otherwise.
const MAX_KEYS: usize = 100_000;

/// Shards of one table. A power of two; the top bits of a key choose.
const SHARDS: usize = 64;
const SHARD_BITS: u32 = SHARDS.trailing_zeros();

/// A [`Store`] in the memory of this process; clones share its state.
///
/// A limit that is full again needs no memory, so nothing has to be swept or aged. What is held is bounded: at most
/// [`max_keys`](Self::max_keys) keys are told apart, in one table for tenants and users and another for keys that
/// an unauthenticated caller can invent. A key beyond that is counted together with others: it may then be refused
/// too early, but never admitted too often, and nobody who is known is forgotten.
///
/// It decides at once: its [`Store::Future`] is never used.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

impl MemoryStore {
    /// An empty store for up to 100,000 live keys of each kind, on tokio's clock.
    pub fn new() -> Self {
        Self::empty(MAX_KEYS, Clock::Tokio(Instant::now()))
    }

    /// An empty store that tells so many live keys of each kind apart, 1,024 at least. A key with up to three limits
    /// takes 64 bytes, held in tables that grow with use up to 100 bytes for each key allowed.
    pub fn max_keys(self, keys: usize) -> Self {
        Self::empty(keys, self.shared.clock.clone())
    }

    /// An empty store on another clock: the time since any fixed moment. It must not go back.
    pub fn clock(self, now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self::empty(self.shared.max_keys, Clock::Custom(Arc::new(now)))
    }

    /// Bytes that the tables hold.
    pub fn memory(&self) -> usize {
        self.shared.shards.iter().map(|shard| lock(shard).memory()).sum()
    }

    fn empty(max_keys: usize, clock: Clock) -> Self {
        let records = max_keys.saturating_add(max_keys / 4).div_ceil(SHARDS);
        Self {
            shared: Arc::new(Shared {
                max_keys,
                clock,
                hash: [RandomState::new(), RandomState::new()],
                shards: (0..2 * SHARDS).map(|_| Mutex::new(Shard::new(records))).collect(),
            }),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("max_keys", &self.shared.max_keys)
            .finish_non_exhaustive()
    }
}

struct Shared {
    max_keys: usize,
    clock: Clock,
    /// Of this store only: nobody outside can find keys that meet in one place.
    hash: [RandomState; 2],
    /// Those of known keys, then those of invented ones.
    shards: Box<[Mutex<Shard>]>,
}

impl Shared {
    /// Nanoseconds since the store's epoch. 584 years fit.
    fn now(&self) -> u64 {
        let now = match &self.clock {
            Clock::Tokio(epoch) => Instant::now().saturating_duration_since(*epoch),
            Clock::Custom(now) => now(),
        };
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The shards of some keys, locked in the order of their positions, so that no two calls wait for each other.
    fn lock(&self, keys: impl Iterator<Item = MemoryKey> + Clone) -> Locked<'_> {
        let mut next = keys.clone().map(MemoryKey::shard).min();
        let guards = std::iter::from_fn(|| {
            let position = next?;
            next = keys
                .clone()
                .map(MemoryKey::shard)
                .filter(|shard| *shard > position)
                .min();
            Some((position, lock(&self.shards[position])))
        });
        Locked {
            shards: guards.collect(),
            overflowed: 0,
        }
    }
}

/// Nothing panics while a shard is locked.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
enum Clock {
    Tokio(Instant),
    Custom(Arc<dyn Fn() -> Duration + Send + Sync>),
}

/// A [`Scope`], hashed to 128 bits with the store's own random keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MemoryKey(u128);

impl MemoryKey {
    /// The top bit tells the tables apart, those below it the shards.
    fn shard(self) -> usize {
        (self.0 >> (u128::BITS - 1 - SHARD_BITS)) as usize
    }
}

impl fmt::Debug for MemoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryKey({:032x})", self.0)
    }
}

struct Locked<'a> {
    /// With their positions.
    shards: PerLimit<(usize, MutexGuard<'a, Shard>)>,
    overflowed: u64,
}

impl Locked<'_> {
    /// The state of a limit. What another plan's limit of that name left is made the limit's own, for good: else the
    /// wait that is told would not shrink with time.
    fn adopt(&mut self, key: MemoryKey, limit: &Limit, now: u64) -> Tat {
        let found = self.shard(key).read(Place::of(key.0, limit.slot));
        let own = limit.gcra().adopt(found, now);
        if own != found {
            self.write(key, limit, own, now);
        }
        own
    }

    fn write(&mut self, key: MemoryKey, limit: &Limit, tat: Tat, now: u64) {
        let stored = self.shard(key).write(Place::of(key.0, limit.slot), tat, now);
        if stored == Stored::Together {
            self.overflowed += 1;
        }
    }

    fn shard(&mut self, key: MemoryKey) -> &mut Shard {
        let mut shards = self.shards.iter_mut();
        let locked = shards.find(|(position, _)| *position == key.shard());
        &mut locked.expect("the shards of all keys are locked").1
    }

    fn unlock(self) {
        let overflowed = self.overflowed;
        drop(self.shards);
        if overflowed > 0 {
            observe::overflowed(overflowed);
        }
    }
}

fn digest(hash: &RandomState, scope: Scope<'_>) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write_u8(scope.by as u8);
    hasher.write_usize(scope.values.len());
    for value in scope.values {
        hasher.write_usize(value.len()); // ("a", "bc") is not ("ab", "c")
        hasher.write(value);
    }
    hasher.finish()
}

impl Store for MemoryStore {
    type Key = MemoryKey;
    type Future = Ready<Verdict>;

    fn key(&self, scope: Scope<'_>) -> MemoryKey {
        let [low, high] = &self.shared.hash;
        let hash = u128::from(digest(high, scope)) << 64 | u128::from(digest(low, scope));
        let table = u128::from(scope.is_invented()) << (u128::BITS - 1);
        MemoryKey(hash & (u128::MAX >> 1) | table | 1) // never 0, which is no key
    }

    fn take(&self, set: &PerLimit<Take<'_, MemoryKey>>) -> Step<Verdict, Ready<Verdict>> {
        let now = self.shared.now();
        let mut shards = self.shared.lock(set.iter().map(|take| take.key));
        let before: PerLimit<_> = set
            .iter()
            .map(|take| shards.adopt(take.key, take.limit, now))
            .collect();
        let after: PerLimit<_> = set
            .iter()
            .zip(before.iter())
            .map(|(take, tat)| take.limit.gcra().take(*tat, take.cost, now))
            .collect();

        let is_admitted = after.iter().all(Result::is_ok);
        if is_admitted {
            for (take, tat) in set.iter().zip(after.iter().flatten()) {
                shards.write(take.key, take.limit, *tat, now);
            }
        }
        shards.unlock();

        let states = set.iter().zip(before.iter().zip(after.iter()));
        let states = states
            .map(|(take, (before, after))| state(take.limit.gcra(), *before, *after, is_admitted, now))
            .collect();
        Step::Now(if is_admitted {
            Verdict::Admitted(states)
        } else {
            Verdict::Refused(states)
        })
    }

    fn correct(&self, corrections: &PerLimit<Correction<'_, MemoryKey>>) {
        let now = self.shared.now();
        let mut shards = self
            .shared
            .lock(corrections.iter().map(|correction| correction.key));
        for Correction {
            key, limit, delta, ..
        } in corrections.iter()
        {
            let tat = shards.adopt(*key, limit, now);
            let corrected = if *delta > 0 {
                limit.gcra().force(tat, delta.unsigned_abs(), now)
            } else {
                limit.gcra().refund(tat, delta.unsigned_abs(), now)
            };
            shards.write(*key, limit, corrected, now);
        }
        shards.unlock();
    }
}

/// What is told of one limit: its state before, or after if everything was taken.
fn state(gcra: &Gcra, before: Tat, after: Result<Tat, Short>, is_admitted: bool, now: u64) -> LimitState {
    let tat = after.ok().filter(|_| is_admitted).unwrap_or(before);
    LimitState {
        room: match after {
            Ok(_) => Room::Enough,
            Err(Short::Wait(nanos)) => Room::After(Duration::from_nanos(nanos)),
            Err(Short::Never) => Room::Never,
        },
        remaining: gcra.remaining(tat, now),
        reset_after: Duration::from_nanos(gcra.reset_after(tat, now)),
        mark: Mark::default(),
    }
}
