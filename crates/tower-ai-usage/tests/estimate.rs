//! Requests are read within limits, estimated, priced, or refused before they cost anything.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use std::time::Duration;
use testkit::{Answer, Contract, ProbeService, ScriptedBody};
use tokio::time::Instant;
use tower::{Layer, ServiceExt};
use tower_ai_core::{
    Buffered, Call, Estimate, EstimateMode, LayerKind, NanoUsd, Refusable, RefusalFormat, RefusedBy, usd,
};
use tower_ai_usage::{EstimateLayer, Price, Prices, Unpriced, UsageLayer};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

testkit::contract!(an_unknown_call_keeps_the_contract: Contract::new(layer()));
testkit::contract!(an_ai_call_keeps_the_contract: Contract::new(layer()).request(|| {
    let body = ScriptedBody::new().data(r#"{"model": "m","#).pending().data(r#" "messages": []}"#);
    Request::post(CHAT).body(body).unwrap()
}));

/// Input 1 USD and output 2 USD for a million tokens.
fn prices() -> Prices {
    Prices::none().with_price("m", Price::per_million(usd!(1), usd!(2)))
}

fn layer() -> EstimateLayer {
    EstimateLayer::new(&prices())
}

fn probe() -> ProbeService {
    ProbeService::new(|_| Answer::ok(ScriptedBody::of(["{}"])))
}

fn post(path: &str, body: impl Into<String>) -> Request<ScriptedBody> {
    Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(ScriptedBody::of([body.into()]))
        .unwrap()
}

/// An answer, and what the inner service saw.
struct Asked {
    response: Response<Refusable<ScriptedBody>>,
    probe: ProbeService,
}

async fn ask(layer: &EstimateLayer, request: Request<ScriptedBody>) -> Asked {
    let probe = probe();
    let response = layer.layer(probe.clone()).oneshot(request).await.unwrap();
    Asked { response, probe }
}

impl Asked {
    fn call(&self) -> Call {
        let seen = self.probe.seen();
        assert_eq!(seen.len(), 1, "the inner service was not called");
        seen[0].extensions.get::<Call>().expect("a call").clone()
    }

    fn estimate(&self) -> Estimate {
        *self.call().estimate().expect("an estimate")
    }

    /// Status, code and body of a refusal, which no inner service saw.
    async fn refusal(self) -> (StatusCode, &'static str, String) {
        assert_eq!(self.probe.calls(), 0, "a refused request went on");
        let code = self
            .response
            .extensions()
            .get::<RefusedBy>()
            .expect("a refusal")
            .code;
        let status = self.response.status();
        let body = self.response.into_body().collect().await.unwrap().to_bytes();
        (status, code, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn of_tokens(estimate: &Estimate) -> (u64, u64) {
    (estimate.counts().input, estimate.counts().output)
}

// === what an AI call may cost ===

#[tokio::test(start_paused = true)]
async fn a_call_is_estimated_by_its_size_and_priced() {
    let body = r#"{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]}"#;
    let asked = ask(&layer(), post(CHAT, body)).await;
    let estimate = asked.estimate();
    let input = (body.len() as u64).div_ceil(3) + 8;
    assert_eq!(of_tokens(&estimate), (input, 50));
    assert_eq!(estimate.output_bound(), Some(50));
    assert_eq!(estimate.mode(), EstimateMode::Fast);
    assert_eq!(
        estimate.cost(),
        Some(NanoUsd::from_nanos((input * 1_000 + 50 * 2_000) as i64))
    );

    let ai = asked.call().ai().unwrap().clone();
    assert_eq!((&*ai.model, ai.stream, ai.usage_asked), ("m", false, false));
    assert!(asked.call().has(LayerKind::Estimate));
    assert_eq!(asked.probe.seen()[0].body, body);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_bound_is_reserved_with_600_tokens_for_each_choice() {
    let asked = ask(&layer(), post(CHAT, r#"{"model":"m","messages":[]}"#)).await;
    assert_eq!(asked.estimate().counts().output, 600);
    assert_eq!(asked.estimate().output_bound(), None);

    let two = r#"{"model":"m","messages":[],"n":2}"#;
    assert_eq!(
        ask(&layer(), post(CHAT, two)).await.estimate().counts().output,
        1_200
    );
    let layer = layer().assumed_output(10);
    assert_eq!(ask(&layer, post(CHAT, two)).await.estimate().counts().output, 20);
}

#[tokio::test(start_paused = true)]
async fn tools_bring_a_hidden_prompt_of_600_tokens() {
    let body = r#"{"model":"m","max_tokens":1,"messages":[],"tools":[{"name":"look"}]}"#;
    let asked = ask(&layer(), post(MESSAGES, body)).await;
    assert_eq!(
        asked.estimate().counts().input,
        (body.len() as u64).div_ceil(3) + 600
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_is_counted_as_an_image_and_not_as_text() {
    let image = |payload: &str| {
        format!(
            r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{payload}"}}}}]}}]}}"#
        )
    };
    let without = image("").len() as u64;
    let asked = ask(&layer(), post(MESSAGES, image(&"A".repeat(90_000)))).await;
    assert_eq!(asked.estimate().counts().input, without.div_ceil(3) + 8 + 1_600);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_may_be_written_to_a_cache_is_priced_as_if_it_were() {
    let prices = Prices::none().with_price(
        "m",
        Price::per_million(usd!(1), usd!(0))
            .cache_write(usd!(2))
            .cache_write_1h(usd!(4)),
    );
    let layer = EstimateLayer::new(&prices);
    for (ttl, nanos_per_token) in [("", 2_000), (r#","ttl":"1h""#, 4_000)] {
        let body = format!(
            r#"{{"model":"m","max_tokens":1,"messages":[],"cache_control":{{"type":"ephemeral"{ttl}}}}}"#
        );
        let estimate = ask(&layer, post(MESSAGES, body)).await.estimate();
        let nanos = estimate.counts().input as i64 * nanos_per_token;
        assert_eq!(estimate.cost(), Some(NanoUsd::from_nanos(nanos)));
        assert_eq!(
            estimate.counts().cache_write(),
            0,
            "what is only possible is not counted"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_tier_that_is_asked_for_has_its_price() {
    let layer = EstimateLayer::new(&Prices::bundled());
    let cost = async |tier: &str| {
        let body = format!(r#"{{"model":"gpt-5","max_tokens":100,"messages":[],"service_tier":"{tier}"}}"#);
        ask(&layer, post(CHAT, body))
            .await
            .estimate()
            .cost()
            .unwrap()
            .nanos()
    };
    // The bodies differ in length by a token or two of 1.25 µUSD; the output costs 1 mUSD.
    assert!(cost("priority").await > cost("default").await + 900_000);
}

#[tokio::test(start_paused = true)]
async fn the_estimate_of_a_handler_wins_and_gets_a_price_if_it_has_none() {
    let given = |estimate| {
        let mut request = post(CHAT, r#"{"model":"m","max_tokens":50,"messages":[]}"#);
        request.extensions_mut().insert::<Estimate>(estimate);
        request
    };
    let mine = Estimate::given(900, 250).unwrap();
    let asked = ask(&layer(), given(mine)).await;
    assert_eq!(of_tokens(&asked.estimate()), (900, 250));
    assert_eq!(
        asked.estimate().cost(),
        Some(NanoUsd::from_nanos(900 * 1_000 + 250 * 2_000))
    );
    assert!(asked.call().ai().is_some());

    let asked = ask(&layer(), given(mine.with_cost(usd!(0.5)))).await;
    assert_eq!(asked.estimate().cost(), Some(usd!(0.5)));
}

#[tokio::test(start_paused = true)]
async fn a_model_without_a_price_passes_without_a_cost_or_is_refused_by_choice() {
    let body = r#"{"model":"unknown","messages":[]}"#;
    let asked = ask(&layer(), post(CHAT, body)).await;
    assert_eq!(asked.estimate().cost(), None);

    let strict = layer().unpriced(Unpriced::Refuse);
    let (status, code, body) = ask(&strict, post(CHAT, body)).await.refusal().await;
    assert_eq!((status, code), (StatusCode::NOT_FOUND, "model_not_found"));
    assert!(body.contains(r#""code":"model_not_found""#));
    assert_eq!(
        ask(&strict, post(CHAT, r#"{"model":"m"}"#))
            .await
            .response
            .status(),
        200
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_in_one_frame_is_read_by_both_layers_and_never_copied() {
    let body = Bytes::from(r#"{"model":"m","messages":[]}"#);
    let sent = body.as_ptr();
    let upstream = tower::service_fn(
        move |request: Request<Buffered<Buffered<ScriptedBody>>>| async move {
            let frame = request.into_body().frame().await.unwrap().unwrap();
            assert_eq!(frame.data_ref().unwrap().as_ptr(), sent);
            Ok::<_, std::convert::Infallible>(Response::new(ScriptedBody::new()))
        },
    );
    let service = layer().layer(UsageLayer::new(&prices()).layer(upstream));
    let request = Request::post(CHAT).body(ScriptedBody::of([body])).unwrap();
    service.oneshot(request).await.unwrap();
}

// === what cannot be understood costs nothing ===

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_understood_is_refused_with_the_reason() {
    let cases = [
        ("{\"model\":", "invalid_json", "line 1"),
        ("[]", "invalid_json", "not a JSON object"),
        ("", "invalid_json", "not a JSON object"),
        (r#"{"messages":[]}"#, "invalid_request", "`model` is missing"),
        (r#"{"model":7}"#, "invalid_request", "`model` must be"),
        (
            r#"{"model":"m","stream":"yes"}"#,
            "invalid_request",
            "`stream` must be",
        ),
        (
            r#"{"model":"m","max_tokens":-1}"#,
            "invalid_estimate",
            "`max_tokens` must be",
        ),
        (
            r#"{"model":"m","max_tokens":10000001}"#,
            "invalid_estimate",
            "`max_tokens` must be",
        ),
        (
            r#"{"model":"m","max_completion_tokens":1e9}"#,
            "invalid_estimate",
            "`max_completion_tokens`",
        ),
        (r#"{"model":"m","n":0}"#, "invalid_estimate", "`n` must be"),
        (
            r#"{"model":"m","n":2000,"max_tokens":10000}"#,
            "invalid_estimate",
            "output tokens",
        ),
    ];
    for (body, code, message) in cases {
        let (status, told, answer) = ask(&layer(), post(CHAT, body)).await.refusal().await;
        assert_eq!((status, told), (StatusCode::BAD_REQUEST, code), "{body}");
        assert!(answer.contains(message), "{body}: {answer}");
        assert!(!answer.contains("1e9"), "a value is repeated: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_shape_of_the_callers_dialect_whatever_the_base_is() {
    let shape = async |path: &str| ask(&layer(), post(path, "nonsense")).await.refusal().await.2;
    assert!(shape(CHAT).await.starts_with(r#"{"error":{"message":"#));
    assert!(
        shape("/openai/deployments/x/chat/completions")
            .await
            .starts_with(r#"{"error":{"message":"#)
    );
    assert!(
        shape("/anthropic/messages")
            .await
            .starts_with(r#"{"type":"error","error":{"type":"invalid_request_error""#)
    );

    let mut request = post(CHAT, "nonsense");
    request.extensions_mut().insert(RefusalFormat::Problem);
    let answer = ask(&layer(), request).await.response;
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json");
}

// === what is not an AI call passes unread ===

#[tokio::test(start_paused = true)]
async fn every_other_call_passes_unread() {
    let body = ScriptedBody::new().data("a").forever();
    let watch = body.watch();
    let answer = ProbeService::new(|_| Answer::ok(ScriptedBody::new()).before_body());
    let request = Request::post("/v1/files").body(body).unwrap();
    let response = layer()
        .body_limit(0)
        .layer(answer.clone())
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(watch.polls(), 0);
    let call = answer.seen()[0].extensions.get::<Call>().unwrap().clone();
    assert!(call.ai().is_none() && call.estimate().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_only_reads_costs_nothing() {
    let request = Request::get("/v1/models").body(ScriptedBody::new()).unwrap();
    let estimate = ask(&layer(), request).await.estimate();
    assert_eq!((of_tokens(&estimate), estimate.cost()), ((0, 0), Some(usd!(0))));
}

#[tokio::test(start_paused = true)]
async fn a_grpc_method_may_be_called_messages() {
    let request = Request::post("/chat.v1.Room/messages")
        .header(header::CONTENT_TYPE, "application/grpc")
        .body(ScriptedBody::of(["\0\0\0\0\0"]))
        .unwrap();
    assert!(ask(&layer(), request).await.call().ai().is_none());
}

// === counts that a caller brings ===

#[tokio::test(start_paused = true)]
async fn a_body_of_ones_own_may_bring_its_counts() {
    let layer = layer().own_counts("m");
    let body = r#"{"text":"…","input_tokens":900,"max_output_tokens":250}"#;
    let asked = ask(&layer, post("/api/ai/summarize", body)).await;
    assert_eq!(of_tokens(&asked.estimate()), (900, 250));
    assert_eq!(
        asked.estimate().cost(),
        Some(NanoUsd::from_nanos(900 * 1_000 + 250 * 2_000))
    );
    assert!(asked.call().ai().is_none());

    let asked = ask(&layer, post("/api/ai/summarize", r#"{"text":"…"}"#)).await;
    assert_eq!(of_tokens(&asked.estimate()), (1_200, 600));
    assert_eq!(asked.estimate().mode(), EstimateMode::Assumed);
    assert_eq!(asked.estimate().cost(), Some(NanoUsd::from_nanos(2_400_000)));
}

#[tokio::test(start_paused = true)]
async fn a_negative_count_of_ones_own_is_refused() {
    let body = r#"{"input_tokens":-5}"#;
    let asked = ask(&layer().own_counts("m"), post("/api/ai/summarize", body)).await;
    let (status, code, body) = asked.refusal().await;
    assert_eq!((status, code), (StatusCode::BAD_REQUEST, "invalid_estimate"));
    assert!(body.contains("`input_tokens`"));
}

#[tokio::test(start_paused = true)]
async fn bodies_of_ones_own_are_read_only_by_choice_and_only_if_they_are_json() {
    let body = r#"{"input_tokens":-5}"#;
    assert!(
        ask(&layer(), post("/api/ai/summarize", body))
            .await
            .call()
            .estimate()
            .is_none()
    );
    let request = Request::post("/upload").body(ScriptedBody::of([body])).unwrap();
    assert!(
        ask(&layer().own_counts("m"), request)
            .await
            .call()
            .estimate()
            .is_none()
    );
}

// === limits ===

#[tokio::test(start_paused = true)]
async fn a_body_of_exactly_the_limit_passes_and_one_byte_more_is_refused() {
    let body = r#"{"model":"m"}"#;
    let layer = layer().body_limit(body.len());
    assert_eq!(ask(&layer, post(CHAT, body)).await.response.status(), 200);

    let (status, code, _) = ask(&layer, post(CHAT, format!("{body} "))).await.refusal().await;
    assert_eq!((status, code), (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"));
}

#[tokio::test(start_paused = true)]
async fn the_default_limit_is_256_kib() {
    let call = r#"{"model":"m"}"#;
    let body = |len: usize| call.to_owned() + &" ".repeat(len - call.len());
    assert_eq!(
        ask(&layer(), post(CHAT, body(256 * 1024)))
            .await
            .response
            .status(),
        200
    );
    let (status, ..) = ask(&layer(), post(CHAT, body(256 * 1024 + 1)))
        .await
        .refusal()
        .await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_announces_too_much_is_not_read() {
    let announced = [
        Request::post(CHAT).body(ScriptedBody::of(["x".repeat(30)]).exact_length()),
        Request::post(CHAT)
            .header(header::CONTENT_LENGTH, 30)
            .body(ScriptedBody::of(["x".repeat(30)])),
    ];
    for request in announced {
        let request = request.unwrap();
        let watch = request.body().watch();
        let (status, ..) = ask(&layer().body_limit(20), request).await.refusal().await;
        assert_eq!((status, watch.polls()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_read_no_further_than_the_limit() {
    let endless = (0..100)
        .fold(ScriptedBody::new(), |body, _| body.data("xxxxx"))
        .forever();
    let watch = endless.watch();
    let request = Request::post(CHAT).body(endless).unwrap();
    let (status, ..) = ask(&layer().body_limit(20), request).await.refusal().await;
    assert_eq!((status, watch.frames()), (StatusCode::PAYLOAD_TOO_LARGE, 5));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_given_up_after_30_seconds() {
    let start = Instant::now();
    let request = Request::post(CHAT)
        .body(ScriptedBody::of(["{"]).forever())
        .unwrap();
    let (status, code, _) = ask(&layer(), request).await.refusal().await;
    assert_eq!((status, code), (StatusCode::REQUEST_TIMEOUT, "request_timeout"));
    assert_eq!(start.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_refused() {
    let request = Request::post(CHAT)
        .body(ScriptedBody::of(["{"]).error("gone"))
        .unwrap();
    let (status, code, _) = ask(&layer(), request).await.refusal().await;
    assert_eq!((status, code), (StatusCode::BAD_REQUEST, "invalid_request"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_the_memory_full_waits_for_it() {
    let body = r#"{"model":"m"}"#;
    let layer = layer().memory_limit(body.len() as u64 * 3 / 2);
    let slow = ProbeService::new(|_| Answer::ok(ScriptedBody::new()).after(Duration::from_secs(5)));
    let request = || {
        Request::post(CHAT)
            .body(ScriptedBody::of([body]).exact_length())
            .unwrap()
    };
    let start = Instant::now();
    // Two services of the one layer, as two routes of an application are.
    let (first, second) = tokio::join!(
        layer.layer(slow.clone()).oneshot(request()),
        layer.layer(slow.clone()).oneshot(request()),
    );
    assert_eq!(
        (first.unwrap().status(), second.unwrap().status()),
        (StatusCode::OK, StatusCode::OK)
    );
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_no_memory_in_time_is_refused_and_may_come_back() {
    let layer = layer().memory_limit(10);
    let never = ProbeService::new(|_| Answer::never());
    let holder = tokio::spawn(layer.layer(never).oneshot(post(CHAT, r#"{"model":"m"}"#)));
    tokio::task::yield_now().await;

    let asked = ask(&layer, post(CHAT, r#"{"model":"m"}"#)).await;
    assert_eq!(asked.response.headers()[header::RETRY_AFTER], "1");
    let (status, code, _) = asked.refusal().await;
    assert_eq!((status, code), (StatusCode::SERVICE_UNAVAILABLE, "server_busy"));

    holder.abort();
    let _ = holder.await;
    assert_eq!(
        ask(&layer, post(CHAT, r#"{"model":"m"}"#))
            .await
            .response
            .status(),
        200
    );
}
