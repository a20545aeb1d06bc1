//! What every layer of the workspace must do.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod support;

use http::Request;
use support::{Noted, Remote};
use testkit::{Contract, ScriptedBody};
use tower_ai_budget::{Budget, BudgetLayer, Ledger, MemoryLedger, ResponseBody};
use tower_ai_core::{Caller, usd};

fn contract(ledger: impl Ledger, books: MemoryLedger) -> Contract {
    let ledger = Noted::new(ledger);
    let noted = ledger.clone();
    let layer = BudgetLayer::new(ledger, Budget::daily(usd!(1000)))
        .unwrap()
        .fixed_cost(usd!(0.01));
    Contract::new(layer)
        .request(|| {
            Request::post("/anything")
                .extension(Caller::new("acme").unwrap())
                .body(ScriptedBody::new().data("some ").pending().data("text"))
                .unwrap()
        })
        .settlements(move || noted.told().len())
        .reservations(move || books.open_reservations())
}

testkit::contract!(memory: {
    let books = MemoryLedger::new();
    contract(books.clone(), books)
});

testkit::contract!(remote: {
    let books = MemoryLedger::new();
    contract(Remote(books.clone()), books)
});

/// hyper, axum and tonic move bodies about and between threads.
#[test]
fn bodies_are_as_movable_as_those_they_wrap() {
    fn is<T: Send + Sync + Unpin + std::fmt::Debug>() {}
    is::<ResponseBody<http_body_util::Full<bytes::Bytes>, MemoryLedger>>();
}
