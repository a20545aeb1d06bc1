//! What is logged: refusals, stores that cannot tell, keys without room.
#![cfg(feature = "tracing")]

use crate::support::*;
use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};
use tower_ai_core::Plans;
use tower_ai_ratelimit::{DAY, Limits, MemoryStore, Outage, RateLimitLayer, SECOND, bucket};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of this crate's events.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Fields>>>);

struct Recorder<'a>(&'a mut Fields);

impl Visit for Recorder<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ai_ratelimit"
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Recorder(&mut fields));
        self.0.lock().unwrap().push(fields);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn every_refused_request_is_one_event_with_its_context() {
    let events = Events::default();
    let _guard = tracing::subscriber::set_default(events.clone());
    let limits = Limits::per_tenant().requests("rpm", bucket(1).refill(1).per(SECOND));
    let plans = Plans::fallback("free").plan("free", limits);
    let service = limited(&RateLimitLayer::new(MemoryStore::new(), plans).unwrap());
    assert_eq!(passed(&service, 3, || plain(on_plan("acme", "free"))).await, 1);

    let events = events.0.lock().unwrap();
    assert_eq!(events.len(), 2, "{events:?}");
    for (name, value) in [
        ("tenant_id", "\"acme\""),
        ("plan", "\"free\""),
        ("limit", "\"rpm\""),
        ("wait_ms", "1000"),
        ("code", "\"rate_limit_exceeded\""),
    ] {
        assert_eq!(events[0][name], value, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_that_the_store_could_not_decide_is_one_event() {
    for (outage, told, status) in [
        (Outage::Open, "\"open\"", 200),
        (Outage::Closed, "\"closed\"", 503),
    ] {
        for at_once in [true, false] {
            let events = Events::default();
            let _guard = tracing::subscriber::set_default(events.clone());
            let limits = Limits::per_tenant().requests("rpm", bucket(1).refill(1).per(SECOND));
            let layer = RateLimitLayer::new(Down { at_once }, limits).unwrap();
            let service = limited(&layer.outage(outage));
            assert_eq!(send(&service, plain(tenant("acme"))).await.status(), status);

            let events = events.0.lock().unwrap();
            assert_eq!(events.len(), 1, "{events:?}");
            assert_eq!(events[0]["reason"], "\"timeout\"");
            assert_eq!(events[0]["outage"], told);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_without_room_of_its_own_is_an_event() {
    let events = Events::default();
    let _guard = tracing::subscriber::set_default(events.clone());
    let limits = Limits::per_tenant().requests("rpd", bucket(10_000).refill(1).per(DAY));
    let service = limited(&RateLimitLayer::new(MemoryStore::new().max_keys(1_024), limits).unwrap());
    send(&service, plain(tenant("acme"))).await;
    assert_eq!(events.0.lock().unwrap().len(), 0);

    flood(&service).await;
    let events = events.0.lock().unwrap();
    assert!(!events.is_empty());
    assert!(events.iter().all(|event| event["limits"] == "1"), "{events:?}");
}
