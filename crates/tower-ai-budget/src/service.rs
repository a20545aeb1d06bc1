//! The service.

use crate::{
    Ledger, ReservationId, ResponseBody, ResponseFuture,
    decision::{Pending, Refused},
    policy::Rules,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::{
    fmt, mem, slice,
    sync::Arc,
    task::{Context, Poll},
};
use tower_ai_core::{Call, LayerKind, RefusalFormat, Step};
use tower_service::Service;

/// Reserves what a call may cost, makes it, and settles what it did cost: see the [crate's documentation](crate).
#[derive(Clone)]
pub struct BudgetService<S, L> {
    inner: S,
    ledger: L,
    rules: Arc<Rules>,
}

impl<S, L> BudgetService<S, L> {
    pub(crate) fn new(inner: S, ledger: L, rules: Arc<Rules>) -> Self {
        Self { inner, ledger, rules }
    }
}

impl<S, L, B, RB> Service<Request<B>> for BudgetService<S, L>
where
    S: Service<Request<B>, Response = Response<RB>> + Clone,
    RB: Body<Data = Bytes>,
    L: Ledger,
{
    type Response = Response<ResponseBody<RB, L>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, L>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let call = Call::of(&mut parts.extensions);
        call.enter(LayerKind::Budget);
        let format = RefusalFormat::of(&parts);
        let request = Request::from_parts(parts, body);

        let ask = match self.rules.ask(&call) {
            Ok(ask) => ask,
            Err(refusal) => return self.refuse(Refused::new(refusal, format)),
        };
        let step = self.ledger.reserve(
            ReservationId::fresh(),
            slice::from_ref(&ask.claim),
            ask.amount,
            self.rules.lease(&call),
        );
        let pending = Pending {
            ledger: self.ledger.clone(),
            rules: self.rules.clone(),
            call,
            ask,
            format,
        };
        match step {
            Step::Now(reserved) => match pending.decide(reserved) {
                Ok(admitted) => ResponseFuture::calling(self.inner.call(request), admitted),
                Err(refused) => self.refuse(refused),
            },
            Step::Later(reserving) => {
                let clone = self.inner.clone();
                let polled = mem::replace(&mut self.inner, clone);
                ResponseFuture::reserving(reserving, polled, request, pending)
            }
        }
    }
}

impl<S: Clone, L: Ledger> BudgetService<S, L> {
    /// The inner service was polled ready for a call that does not come: a fresh instance gives that back.
    fn refuse<B>(&mut self, refused: Refused) -> ResponseFuture<S, B, L>
    where
        S: Service<Request<B>>,
    {
        self.inner = self.inner.clone();
        ResponseFuture::refused(refused)
    }
}

impl<S, L> fmt::Debug for BudgetService<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetService")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
