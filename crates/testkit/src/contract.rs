//! What every layer of the workspace must do, as checks that a layer's tests run by one line of [`contract!`].
//!
//! Each check is an async function of a [`Contract`], so that a test can also call one alone.
//!
//! [`contract!`]: crate::contract!

mod ends;
mod readiness;
mod transparency;
mod wakes;

pub use ends::*;
pub use readiness::*;
pub use transparency::*;
pub use wakes::*;

use crate::{ProbeService, ScriptedBody};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use std::{fmt, time::Duration};
use tokio::time::{sleep, timeout};
use tower::{ServiceExt, util::BoxCloneSyncService};
use tower_ai_core::BoxError;
use tower_layer::Layer;
use tower_service::Service;

/// Writes a module of tests: one for each check of the contract that every layer keeps.
///
/// Name the module, then give a [`Contract`](crate::Contract) of your layer. The expression is evaluated for each
/// test anew, in a runtime whose time is paused.
///
/// ```
/// use testkit::Contract;
///
/// testkit::contract!(identity: Contract::new(tower_layer::Identity::new()));
/// ```
///
/// A layer that reserves something says how to count, and which request it admits. Its limits have to be wide enough
/// for some 100 calls. One that refuses requests names such a [request](crate::Contract::refused_request) too.
///
/// ```
/// # #[derive(Clone, Default)] struct Ledger;
/// # impl Ledger { fn settled(&self) -> usize { 0 } fn open(&self) -> usize { 0 } }
/// # fn budget(_: Ledger) -> tower_layer::Identity { tower_layer::Identity::new() }
/// use testkit::{Contract, ScriptedBody};
/// use tower_ai_core::Caller;
///
/// testkit::contract! {
///     budget: {
///         let ledger = Ledger::default();
///         let (counted, watched) = (ledger.clone(), ledger.clone());
///         Contract::new(budget(ledger))
///             .request(|| {
///                 let caller = Caller::new("acme").unwrap();
///                 http::Request::post("/v1/messages").extension(caller).body(ScriptedBody::of(["{}"])).unwrap()
///             })
///             .settlements(move || counted.settled())
///             .reservations(move || watched.open())
///     }
/// }
/// ```
#[macro_export]
macro_rules! contract {
    ($name:ident: $contract:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::contract! {
                @tests $contract;
                the_polled_instance_is_called
                readiness_of_the_inner_service_is_awaited
                a_clone_becomes_ready_by_itself
                a_ready_service_that_is_dropped_leaks_nothing
                a_failed_readiness_is_not_hidden
                a_refusal_gives_the_readiness_back
                nothing_is_polled_while_the_inner_service_is_not_ready
                nothing_is_polled_while_the_request_body_is_pending
                nothing_is_polled_while_the_answer_is_pending
                nothing_is_polled_while_the_body_is_pending
                the_request_passes_unchanged
                the_head_passes_unchanged
                bodies_pass_unchanged
                each_end_of_a_body_settles_once
                a_failed_call_settles_once
                a_future_dropped_after_any_poll_settles_once
            }
        }
    };
    (@tests $contract:expr; $($check:ident)+) => {
        $(
            #[test]
            fn $check() {
                $crate::in_paused_time(async { $crate::contract::$check(&$contract).await });
            }
        )+
    };
}

/// The longest that a check waits, in paused time. Longer than any limit that a layer has.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;
pub(crate) type Stack = BoxCloneSyncService<Request<ScriptedBody>, Response<AnyBody>, BoxError>;

/// A layer and what its checks need to know.
pub struct Contract {
    stack: Box<dyn Fn(ProbeService) -> Stack>,
    request: Box<dyn Fn() -> Request<ScriptedBody>>,
    refused_request: Option<Box<dyn Fn() -> Request<ScriptedBody>>>,
    settlements: Option<Box<dyn Fn() -> usize>>,
    reservations: Option<Box<dyn Fn() -> usize>>,
    exact_size: bool,
    same_frames: bool,
    errors_pass: bool,
}

impl Contract {
    /// The contract of this layer.
    ///
    /// The bounds are a part of it: they are what axum, tonic and hyper ask for. A layer that misses an auto trait
    /// does not compile here.
    pub fn new<L, RB>(layer: L) -> Self
    where
        L: Layer<ProbeService> + Clone + Send + Sync + 'static,
        L::Service: Service<Request<ScriptedBody>, Response = Response<RB>> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request<ScriptedBody>>>::Future: Send + 'static,
        <L::Service as Service<Request<ScriptedBody>>>::Error: Into<BoxError>,
        RB: Body<Data = Bytes> + Send + 'static,
        RB::Error: Into<BoxError>,
    {
        let stack = move |probe| {
            let service = layer
                .layer(probe)
                .map_response(|response: Response<RB>| {
                    response.map(|body| body.map_err(Into::into).boxed_unsync())
                })
                .map_err(Into::into);
            BoxCloneSyncService::new(service)
        };
        Self {
            stack: Box::new(stack),
            request: Box::new(default_request),
            refused_request: None,
            settlements: None,
            reservations: None,
            exact_size: true,
            same_frames: true,
            errors_pass: true,
        }
    }

    /// A request that the layer lets pass, every time. By default `POST /anything` with a text.
    pub fn request(mut self, request: impl Fn() -> Request<ScriptedBody> + 'static) -> Self {
        self.request = Box::new(request);
        self
    }

    /// A request that the layer refuses by itself, every time. A check then demands that the refusal keeps nothing
    /// of the inner service.
    pub fn refused_request(mut self, request: impl Fn() -> Request<ScriptedBody> + 'static) -> Self {
        self.refused_request = Some(Box::new(request));
        self
    }

    /// How many reservations were settled so far, whether charged or released. A check then demands exactly one for
    /// each call.
    pub fn settlements(mut self, count: impl Fn() -> usize + 'static) -> Self {
        self.settlements = Some(Box::new(count));
        self
    }

    /// How many reservations are open now. A check then demands none after each call.
    pub fn reservations(mut self, count: impl Fn() -> usize + 'static) -> Self {
        self.reservations = Some(Box::new(count));
        self
    }

    /// The layer rewrites bytes: the length it announces need not be exact. It may not be wrong.
    pub fn inexact_size(mut self) -> Self {
        self.exact_size = false;
        self
    }

    /// The layer holds back or cuts anew: the bytes and their order count, not the frames.
    pub fn other_frames(mut self) -> Self {
        self.same_frames = false;
        self
    }

    /// The layer may answer by itself when the inner service, or the start of its body, fails.
    pub fn handles_errors(mut self) -> Self {
        self.errors_pass = false;
        self
    }

    pub(crate) fn stack(&self, probe: &ProbeService) -> Stack {
        (self.stack)(probe.clone())
    }

    pub(crate) fn fresh_request(&self) -> Request<ScriptedBody> {
        (self.request)()
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract")
            .field("exact_size", &self.exact_size)
            .field("same_frames", &self.same_frames)
            .field("errors_pass", &self.errors_pass)
            .finish_non_exhaustive()
    }
}

fn default_request() -> Request<ScriptedBody> {
    let body = ScriptedBody::new().data("some ").pending().data("text");
    Request::post("/anything")
        .body(body)
        .expect("the parts are valid")
}

/// Runs a test in a runtime of one thread whose time is paused, as `#[tokio::test(start_paused = true)]` does.
///
/// # Panics
/// When the test does.
pub fn in_paused_time<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread")
        .block_on(test)
}

/// Waits, but not forever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(LONG, future).await {
        Ok(output) => output,
        Err(_) => panic!("stalled: {what}"),
    }
}

/// Makes one call as a well-behaved caller does and demands a response.
pub(crate) async fn answered(stack: &mut Stack, request: Request<ScriptedBody>) -> Response<AnyBody> {
    let ready = within("the stack gets ready", stack.ready()).await;
    let call = ready
        .unwrap_or_else(|error| panic!("the stack failed to get ready: {error}"))
        .call(request);
    within("the response comes", call)
        .await
        .unwrap_or_else(|error| panic!("the call failed: {error}"))
}

/// Gives workers that settle in the background their turn.
pub(crate) async fn quiet() {
    sleep(Duration::from_secs(1)).await;
}
