use super::*;
use crate::{By, DAY, Limits, SECOND, bucket, limit::LimitSet};
use std::{sync::atomic::AtomicU64, sync::atomic::Ordering, thread};

fn set(limits: Limits) -> LimitSet {
    limits.build("").unwrap()
}

fn key(store: &MemoryStore, by: By, values: &[&str]) -> MemoryKey {
    let values: Vec<_> = values.iter().map(|value| value.as_bytes()).collect();
    store.key(Scope { by, values: &values })
}

/// A store whose time stands still.
fn frozen() -> MemoryStore {
    MemoryStore::new().clock(|| Duration::from_secs(1))
}

fn take(store: &MemoryStore, takes: &[(MemoryKey, &Limit, u64)]) -> Verdict {
    let takes = takes.iter().map(|&(key, limit, cost)| Take { key, limit, cost });
    match store.take(&takes.collect()) {
        Step::Now(verdict) => verdict,
        Step::Later(_) => panic!("memory decides at once"),
    }
}

fn is_admitted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Admitted(_))
}

fn correct(store: &MemoryStore, key: MemoryKey, limit: &Limit, delta: i64) {
    let mark = Mark::default();
    let correction = Correction {
        key,
        limit,
        mark,
        delta,
    };
    store.correct(&[correction].into_iter().collect());
}

fn remaining(store: &MemoryStore, key: MemoryKey, limit: &Limit) -> u64 {
    match take(store, &[(key, limit, 0)]) {
        Verdict::Admitted(states) => states.get(0).unwrap().remaining,
        verdict => panic!("nothing always fits: {verdict:?}"),
    }
}

#[test]
fn values_that_run_together_stay_different() {
    let store = MemoryStore::new();
    let user = |values| key(&store, By::User, values);
    assert_ne!(user(&["a", "bc"]), user(&["ab", "c"]));
    assert_ne!(user(&["a:b", "c"]), user(&["a", "b:c"]));
    assert_ne!(user(&["a"]), user(&["a", ""]));
    assert_ne!(user(&["a"]), key(&store, By::Tenant, &["a"]));
    assert_eq!(user(&["a", "b"]), user(&["a", "b"]));
}

#[test]
fn keys_are_hashed_by_each_store_in_its_own_way() {
    let of = || key(&MemoryStore::new(), By::Tenant, &["acme"]);
    assert_ne!(of(), of());
}

#[test]
fn invented_keys_live_in_another_table() {
    let store = MemoryStore::new();
    for n in 0..100 {
        assert!(key(&store, By::Tenant, &[&n.to_string()]).shard() < SHARDS);
        assert!(key(&store, By::Custom, &[&n.to_string()]).shard() >= SHARDS);
    }
}

#[test]
fn a_correction_moves_what_remains_within_the_bounds() {
    let (store, set) = (
        frozen(),
        set(Limits::per_tenant().tokens("tpm", bucket(100).refill(1).per(DAY))),
    );
    let (acme, tpm) = (key(&store, By::Tenant, &["acme"]), &set.limits[0]);
    assert!(is_admitted(&take(&store, &[(acme, tpm, 60)])));
    correct(&store, acme, tpm, -20);
    assert_eq!(remaining(&store, acme, tpm), 60);
    correct(&store, acme, tpm, 90);
    assert_eq!(remaining(&store, acme, tpm), 0);
    correct(&store, acme, tpm, -29);
    assert_eq!(remaining(&store, acme, tpm), 0, "30 units of debt were kept");
    correct(&store, acme, tpm, i64::MIN);
    assert_eq!(remaining(&store, acme, tpm), 100, "no credit");
    correct(&store, acme, tpm, i64::MAX);
    correct(&store, acme, tpm, -101);
    assert_eq!(remaining(&store, acme, tpm), 1, "debt of one capacity at most");
}

#[test]
fn more_limits_than_a_record_holds_are_kept_apart() {
    let (store, limits) = (
        frozen(),
        (1..=8).fold(Limits::per_tenant(), |limits, n| {
            limits.requests(format!("record-{n}"), bucket(n).refill(1).per(DAY))
        }),
    );
    let set = set(limits);
    let acme = key(&store, By::Tenant, &["acme"]);
    let takes: Vec<_> = set.limits.iter().map(|limit| (acme, limit, 1)).collect();
    assert!(is_admitted(&take(&store, &takes)));
    for (limit, left) in set.limits.iter().zip(0..) {
        assert_eq!(remaining(&store, acme, limit), left);
    }
    assert!(!is_admitted(&take(&store, &takes)));
}

#[test]
fn threads_together_get_exactly_the_capacity() {
    let (store, set) = (
        frozen(),
        set(Limits::in_all()
            .requests("all", bucket(5_000).refill(1).per(DAY))
            .and(Limits::per_tenant().requests("tenant", bucket(3_000).refill(1).per(DAY)))),
    );
    let [all, tenant] = &set.limits[..] else { panic!() };
    let (whole, sum) = (key(&store, By::All, &[]), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (store, sum) = (store.clone(), &sum);
            scope.spawn(move || {
                let name = format!("tenant {}", thread % 2);
                let own = key(&store, By::Tenant, &[&name]);
                for n in 0..4_000 {
                    // In both orders: locks are taken in the order of shards all the same.
                    let mut takes = [(whole, all, 1), (own, tenant, 1)];
                    takes.rotate_left(n % 2);
                    sum.fetch_add(is_admitted(&take(&store, &takes)).into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), 5_000);
    let left = |name| remaining(&store, key(&store, By::Tenant, &[name]), tenant);
    assert_eq!(
        left("tenant 0") + left("tenant 1"),
        1_000,
        "what was refused was counted nowhere"
    );
}

#[test]
fn a_million_invented_keys_neither_grow_memory_nor_free_anybody() {
    let (store, set) = (
        frozen(),
        set(Limits::per_client_addr()
            .requests("address", bucket(3).refill(1).per(SECOND))
            .and(Limits::per_tenant().requests("tenant", bucket(3).refill(1).per(SECOND)))),
    );
    let [address, tenant] = &set.limits[..] else {
        panic!()
    };
    let attacker = key(&store, By::ClientAddr, &["attacker"]);
    let acme = key(&store, By::Tenant, &["acme"]);
    for _ in 0..3 {
        assert!(is_admitted(&take(&store, &[(attacker, address, 1)])));
    }
    assert!(is_admitted(&take(&store, &[(acme, tenant, 1)])));

    let invent = |from: u32, to: u32| {
        for n in from..to {
            let hostile = store.key(Scope {
                by: By::ClientAddr,
                values: &[&n.to_be_bytes()],
            });
            take(&store, &[(hostile, address, 1)]);
        }
    };
    invent(0, 500_000);
    let memory = store.memory();
    invent(500_000, 1_000_000);

    assert_eq!(store.memory(), memory);
    assert!(memory <= 101 * MAX_KEYS, "{memory} bytes");
    assert!(
        !is_admitted(&take(&store, &[(attacker, address, 1)])),
        "an exhausted key was forgotten"
    );
    assert_eq!(remaining(&store, acme, tenant), 2, "a known tenant was forgotten");
    let newcomer = key(&store, By::Tenant, &["newcomer"]);
    assert_eq!(
        remaining(&store, newcomer, tenant),
        3,
        "a new tenant pays for the flood"
    );
}
