//! What is counted of stores that cannot tell and of keys without room.
#![cfg(feature = "metrics")]

use crate::support::*;
use ::metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use testkit::in_paused_time;
use tower_ai_ratelimit::{DAY, Limits, MemoryStore, Outage, RateLimitLayer, bucket};

/// The sum of each counter, by its name and the values of its labels.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, u64>>>);

impl Sums {
    fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap().clone()
    }
}

struct One {
    name: String,
    sums: Sums,
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.sums.0.lock().unwrap().entry(self.name.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {
        unreachable!("the layer only adds");
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        let sums = self.clone();
        Counter::from_arc(Arc::new(One { name, sums }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn limits() -> Limits {
    Limits::per_tenant().requests("rpd", bucket(10_000).refill(1).per(DAY))
}

/// What is counted meanwhile.
fn counted(test: impl Future<Output = ()>) -> BTreeMap<String, u64> {
    let sums = Sums::default();
    with_local_recorder(&sums, || in_paused_time(test));
    sums.all()
}

#[test]
fn every_request_that_the_store_could_not_decide_is_counted() {
    for (outage, name) in [(Outage::Open, "open"), (Outage::Closed, "closed")] {
        let counted = counted(async {
            for at_once in [true, false] {
                let layer = RateLimitLayer::new(Down { at_once }, limits()).unwrap();
                send(&limited(&layer.outage(outage)), plain(tenant("acme"))).await;
            }
        });
        let unavailable = format!("ratelimit_unavailable_total reason=timeout outage={name}");
        assert_eq!(counted, BTreeMap::from([(unavailable, 2)]));
    }
}

#[test]
fn keys_without_room_of_their_own_are_counted() {
    let store = || MemoryStore::new().max_keys(1_024);
    let layer = || RateLimitLayer::new(store(), limits()).unwrap();
    let one = counted(async { drop(send(&limited(&layer()), plain(tenant("acme"))).await) });
    assert_eq!(one, BTreeMap::new());

    let many = counted(async { flood(&limited(&layer())).await });
    let overflowed = many["ratelimit_overflowed_total"];
    assert!(
        (1..4_096).contains(&overflowed),
        "{overflowed} of 4,096 had no room"
    );
}
