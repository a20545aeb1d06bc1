//! What is counted of stores that cannot tell and of keys without room.
#![cfg(feature = "metrics")]

use crate::support::*;
use testkit::{MetricNotes, in_paused_time};
use tower_ai_ratelimit::{DAY, Limits, MemoryStore, Outage, RateLimitLayer, bucket};

fn limits() -> Limits {
    Limits::per_tenant().requests("rpd", bucket(10_000).refill(1).per(DAY))
}

/// What is counted meanwhile.
fn counted(test: impl Future<Output = ()>) -> MetricNotes {
    MetricNotes::during(|| in_paused_time(test))
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
        let unavailable = format!("ratelimit_unavailable_total{{reason=timeout,outage={name}}} 1");
        assert_eq!(counted.lines(), [unavailable.clone(), unavailable]);
    }
}

#[test]
fn keys_without_room_of_their_own_are_counted() {
    let store = || MemoryStore::new().max_keys(1_024);
    let layer = || RateLimitLayer::new(store(), limits()).unwrap();
    let one = counted(async { drop(send(&limited(&layer()), plain(tenant("acme"))).await) });
    assert!(one.lines().is_empty());

    let many = counted(async { flood(&limited(&layer())).await });
    let overflowed = many.sum("ratelimit_overflowed_total").unwrap();
    assert!(
        (1.0..4_096.0).contains(&overflowed),
        "{overflowed} of 4,096 had no room"
    );
}
