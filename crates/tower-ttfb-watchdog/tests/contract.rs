//! What every layer of the workspace must do.

use testkit::{Contract, ScriptedBody};
use tower_ttfb_watchdog::{RequestBody, ResponseBody, TtfbWatchdogLayer};

testkit::contract!(watchdog: Contract::new(TtfbWatchdogLayer::new()));

// Without limits, nothing that the checks wait for is cut short.
testkit::contract!(unlimited: {
    let never = std::time::Duration::MAX;
    Contract::new(TtfbWatchdogLayer::new().connect(never).upload(never).first_byte(never).gap(never))
});

/// hyper, axum and tonic move bodies about and between threads.
#[test]
fn bodies_are_as_movable_as_those_they_wrap() {
    fn is<T: Send + Sync + Unpin + std::fmt::Debug>() {}
    fn is_send<T: Send>() {}
    is::<RequestBody<http_body_util::Full<bytes::Bytes>>>();
    is_send::<ResponseBody<ScriptedBody>>();
}
