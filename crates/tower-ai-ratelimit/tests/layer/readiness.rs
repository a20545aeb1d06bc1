//! What the inner service reserved for a call that is refused.

use http::Request;
use testkit::{Answer, ProbeService, ScriptedBody};
use tower::{Layer, Service, ServiceExt};
use tower_ai_core::Caller;
use tower_ai_ratelimit::{Limits, MemoryStore, RateLimitLayer, SECOND, bucket};

/// A refused caller's idle clone would else keep the place of somebody who could be served.
#[tokio::test(start_paused = true)]
async fn a_refusal_gives_the_readiness_of_the_inner_service_back() {
    let limits = Limits::per_tenant().requests("rps", bucket(1).refill(1).per(SECOND));
    let layer = RateLimitLayer::new(MemoryStore::new(), limits).unwrap();
    let probe = ProbeService::new(|_| Answer::ok(ScriptedBody::of(["hello"])));
    let service = layer.layer(probe.clone());
    let known = || {
        let mut request = Request::new(ScriptedBody::new());
        request.extensions_mut().insert(Caller::new("acme").unwrap());
        request
    };
    assert_eq!(service.clone().oneshot(known()).await.unwrap().status(), 200);

    for (request, status) in [(known(), 429), (Request::new(ScriptedBody::new()), 401)] {
        let mut refused = service.clone();
        let ready = ServiceExt::<Request<ScriptedBody>>::ready(&mut refused)
            .await
            .unwrap();
        let response = ready.call(request).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(
            probe.permits_out(),
            0,
            "the clone that was refused is still there"
        );
    }
}
