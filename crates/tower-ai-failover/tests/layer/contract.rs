//! What every layer of the workspace must do.

use testkit::Contract;
use tower_ai_failover::{FailoverLayer, Routes, Upstream};

fn layer() -> FailoverLayer {
    let routes = Routes::new().any([Upstream::plain("a", "http://a"), Upstream::plain("b", "http://b")]);
    FailoverLayer::new(routes).unwrap()
}

// The first frame is held until it is there: what is announced at the head is what was held.
testkit::contract!(failover: Contract::new(layer()).other_frames().inexact_size().handles_errors());
