//! Tokens: what is reserved, and what it comes to for every row of the table of settlements and every end of a body.

use crate::support::*;
use http::Request;
use testkit::{ALL_ENDS, Answer, End, ProbeService, ScriptedBody};
use tower::ServiceExt;
use tower_ai_core::{
    AiCall, Call, Estimate, EstimateMode, LayerKind, Operation, Refusal, RefusedBy, TokenCounts, UsageState,
};
use tower_ai_ratelimit::{DAY, Limits, MemoryStore, RateLimitLayer, bucket};
use tower_layer::Layer;

const TOKENS: u64 = 10_000;
const REQUESTS: u64 = 100;

fn limits() -> Limits {
    Limits::in_all()
        .requests("rpd", bucket(REQUESTS).refill(1).per(DAY))
        .tokens("tpd", bucket(TOKENS).refill(1).per(DAY))
}

fn layer() -> RateLimitLayer<MemoryStore> {
    RateLimitLayer::new(MemoryStore::new(), limits()).unwrap()
}

fn estimate(estimate: Estimate) -> Request<ScriptedBody> {
    let mut request = plain(None);
    request.extensions_mut().insert(estimate);
    request
}

/// Requests and tokens that are taken now, seen by a request that costs no tokens and is not counted.
async fn taken(layer: &RateLimitLayer<MemoryStore>) -> (u64, u64) {
    let nothing = estimate(Estimate::given(0, 0).unwrap());
    let response = send(&limited(layer), nothing).await;
    let left = |name| header(&response, name).parse::<u64>().unwrap();
    let (requests, tokens) = (
        left("x-ratelimit-remaining-requests"),
        left("x-ratelimit-remaining-tokens"),
    );
    (REQUESTS - 1 - requests, TOKENS - tokens)
}

/// One call of 100 + 50 estimated tokens in a stack with these layers.
struct Row {
    name: &'static str,
    layers: &'static [LayerKind],
    /// What Usage and Failover note while the call runs.
    note: fn(&Call),
    answer: fn(ScriptedBody) -> Answer,
    /// Requests and tokens in the end.
    taken: (u64, u64),
}

impl Row {
    /// Runs the call up to its head, and meets the end of its body.
    async fn run(&self, end: End) -> (u64, u64) {
        let (layer, call) = (layer(), self.call());
        let (note, answer, noted) = (self.note, self.answer, call.clone());
        let probe = ProbeService::new(move |_| {
            note(&noted);
            answer(end.body(["some ", "data"]))
        });
        let mut request = plain(None);
        request.extensions_mut().insert(call);
        if let Ok(response) = layer.layer(probe).oneshot(request).await {
            end.meet(response.into_body()).await;
        }
        taken(&layer).await
    }

    /// Runs the call until its future is polled once, and drops it.
    async fn drop_early(&self) -> (u64, u64) {
        let (layer, call) = (layer(), self.call());
        let (note, noted) = (self.note, call.clone());
        let probe = ProbeService::new(move |_| {
            note(&noted);
            Answer::never()
        });
        let mut request = plain(None);
        request.extensions_mut().insert(call);
        let future = layer.layer(probe).oneshot(request);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), future).await;
        taken(&layer).await
    }

    fn call(&self) -> Call {
        let call = Call::default();
        self.layers.iter().for_each(|layer| call.enter(*layer));
        call.set_estimate(Estimate::given(100, 50).unwrap());
        call
    }
}

fn note(call: &Call, state: UsageState, counts: (u64, u64), forwarded: u64) {
    call.meter().update(0, |attempt| {
        attempt.counts = TokenCounts::new(counts.0, counts.1);
        attempt.forwarded = forwarded;
        attempt.advance(state);
    });
}

fn refused_by() -> RefusedBy {
    Refusal::missing_caller(LayerKind::Budget).refused_by().clone()
}

const USAGE: &[LayerKind] = &[LayerKind::Usage];

const ROWS: &[Row] = &[
    Row {
        name: "a: refused by an inner layer, nothing sent; the request is given back too",
        layers: USAGE,
        note: |_| {},
        answer: |body| Answer::status(402, body).extension(refused_by()),
        taken: (0, 0),
    },
    Row {
        name: "a: failed, nothing sent",
        layers: USAGE,
        note: |_| {},
        answer: |_| Answer::error("no"),
        taken: (1, 0),
    },
    Row {
        name: "b: the upstream answered an error",
        layers: USAGE,
        note: |call| note(call, UsageState::NotBilled, (0, 0), 0),
        answer: |body| Answer::status(500, body),
        taken: (1, 0),
    },
    Row {
        name: "b: refused by an inner layer after an attempt was sent: no request is given back",
        layers: USAGE,
        note: |call| note(call, UsageState::NotBilled, (0, 0), 0),
        answer: |body| Answer::status(503, body).extension(refused_by()),
        taken: (1, 0),
    },
    Row {
        name: "b: all attempts failed, one is billed",
        layers: USAGE,
        note: |call| note(call, UsageState::Reported, (30, 1), 0),
        answer: |_| Answer::error("no"),
        taken: (1, 31),
    },
    Row {
        name: "b: the service failed, and nobody tells what was sent",
        layers: &[],
        note: |_| {},
        answer: |_| Answer::error("no"),
        taken: (1, 0),
    },
    Row {
        name: "c: less than reserved was reported",
        layers: USAGE,
        note: |call| note(call, UsageState::Reported, (90, 20), 3),
        answer: Answer::ok,
        taken: (1, 110),
    },
    Row {
        name: "c: more than reserved was reported",
        layers: USAGE,
        note: |call| note(call, UsageState::Reported, (120, 900), 3),
        answer: Answer::ok,
        taken: (1, 1_020),
    },
    Row {
        name: "d: cut before the usage came",
        layers: USAGE,
        note: |call| note(call, UsageState::Answered, (0, 0), 12),
        answer: Answer::ok,
        taken: (1, 112),
    },
    Row {
        name: "f: nobody reads the usage",
        layers: &[],
        note: |_| {},
        answer: Answer::ok,
        taken: (1, 150),
    },
];

#[tokio::test(start_paused = true)]
async fn tokens_are_settled_by_the_table_whichever_end_the_body_meets() {
    for row in ROWS {
        for end in ALL_ENDS {
            assert_eq!(row.run(end).await, row.taken, "{} ({end:?})", row.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_its_head_is_settled_too() {
    let row = |note: fn(&Call), layers, taken| Row {
        name: "dropped",
        layers,
        note,
        answer: Answer::ok,
        taken,
    };
    let unsent = row(|_| {}, USAGE, (1, 0));
    assert_eq!(unsent.drop_early().await, unsent.taken, "row a");
    let sent = row(|call| note(call, UsageState::Sent, (0, 0), 0), USAGE, (1, 100));
    assert_eq!(sent.drop_early().await, sent.taken, "row e");
    let unwatched = row(|_| {}, &[], (1, 100));
    assert_eq!(unwatched.drop_early().await, unwatched.taken, "row e");
}

#[tokio::test(start_paused = true)]
async fn tokens_stay_reserved_until_the_body_ends() {
    let (layer, call) = (layer(), metered_call());
    note(&call, UsageState::Reported, (1, 1), 0);
    let mut request = plain(None);
    request.extensions_mut().insert(call);
    let response = send(&limited(&layer), request).await;
    assert_eq!(taken(&layer).await, (1, 150));
    drop(response);
    assert_eq!(taken(&layer).await, (2, 2), "and the look above was a request");
}

/// A call of 100 + 50 estimated tokens whose usage will be read.
fn metered_call() -> Call {
    let call = Call::default();
    call.enter(LayerKind::Usage);
    call.set_estimate(Estimate::given(100, 50).unwrap());
    call
}

/// What a request with this estimate takes of a limit of [`TOKENS`], or the status that refuses it.
async fn reserved(layer: &RateLimitLayer<MemoryStore>, request: Request<ScriptedBody>) -> Result<u64, u16> {
    let response = send(&limited(layer), request).await;
    match response.status().as_u16() {
        200 => Ok(TOKENS
            - header(&response, "x-ratelimit-remaining-tokens")
                .parse::<u64>()
                .unwrap()),
        status => Err(status),
    }
}

#[tokio::test(start_paused = true)]
async fn the_input_and_the_bound_of_the_output_are_reserved() {
    let fast = |input, output| Estimate::new(EstimateMode::Fast, TokenCounts::new(input, output)).unwrap();
    let bounded = estimate(fast(100, 600).with_output_bound(2_000));
    assert_eq!(reserved(&layer(), bounded).await, Ok(2_100));
    assert_eq!(reserved(&layer(), estimate(fast(100, 600))).await, Ok(700));
    let bounded = estimate(fast(100, 600).with_output_bound(2_000));
    assert_eq!(reserved(&layer().max_output_tokens(500), bounded).await, Ok(600));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_names_no_bound_is_never_locked_out() {
    let fast = |input, output| Estimate::new(EstimateMode::Fast, TokenCounts::new(input, output)).unwrap();
    assert_eq!(reserved(&layer(), estimate(fast(100, 50_000))).await, Ok(TOKENS));
    assert_eq!(reserved(&layer(), estimate(fast(TOKENS + 1, 1))).await, Err(413));
    let bounded = fast(100, 50_000).with_output_bound(50_000);
    assert_eq!(reserved(&layer(), estimate(bounded)).await, Err(413));

    let small = Limits::in_all().tokens("tpd", bucket(1_000).refill(1).per(DAY));
    let small = RateLimitLayer::new(MemoryStore::new(), small).unwrap();
    assert_eq!(
        send(&limited(&small), plain(None)).await.status(),
        200,
        "1,800 are assumed"
    );
    assert_eq!(send(&limited(&small), plain(None)).await.status(), 429);
}

#[tokio::test(start_paused = true)]
async fn without_an_estimate_1200_and_600_tokens_are_assumed() {
    assert_eq!(reserved(&layer(), plain(None)).await, Ok(1_800));
}

#[tokio::test(start_paused = true)]
async fn what_estimate_saw_to_be_no_call_of_a_model_costs_no_tokens() {
    let request = |ai: Option<AiCall>| {
        let (call, mut request) = (Call::default(), plain(None));
        call.enter(LayerKind::Estimate);
        ai.into_iter().for_each(|ai| call.set_ai(ai));
        request.extensions_mut().insert(call);
        request
    };
    assert_eq!(reserved(&layer(), request(None)).await, Ok(0));
    let ai = AiCall::new(Operation::Messages, "claude");
    assert_eq!(reserved(&layer(), request(Some(ai))).await, Ok(1_800));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_tokens_passes_while_the_tokens_are_in_debt() {
    let layer = layer();
    let call = metered_call();
    note(&call, UsageState::Reported, (TOKENS, TOKENS), 0);
    let mut request = plain(None);
    request.extensions_mut().insert(call);
    drop(send(&limited(&layer), request).await);
    assert_eq!(
        reserved(&layer, estimate(Estimate::given(1, 0).unwrap())).await,
        Err(429)
    );
    assert_eq!(taken(&layer).await, (1, TOKENS));
}
