//! The facts of one call, in one cheap extension.

use crate::{AiCall, Caller, ClientAddr, Deadline, Estimate, UsageMeter};
use http::Extensions;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

/// A layer of this workspace, as it notes itself in a [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum LayerKind {
    /// `EstimateLayer`
    Estimate = 1,
    /// `RateLimitLayer`
    RateLimit = 2,
    /// `BudgetLayer`
    Budget = 3,
    /// `FailoverLayer`
    Failover = 4,
    /// `UsageLayer`
    Usage = 5,
    /// `TtfbWatchdogLayer`
    TtfbWatchdog = 6,
    /// Your server around them, when its authentication or routing answers with a [`Refusal`](crate::Refusal).
    Host = 7,
}

impl LayerKind {
    /// The layers of a stack in the order in which they belong, outermost first.
    pub const IN_ORDER: [Self; 6] = [
        Self::Estimate,
        Self::RateLimit,
        Self::Budget,
        Self::Failover,
        Self::Usage,
        Self::TtfbWatchdog,
    ];

    /// The name in labels, logs and [`RefusedBy`](crate::RefusedBy).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Estimate => "estimate",
            Self::RateLimit => "ratelimit",
            Self::Budget => "budget",
            Self::Failover => "failover",
            Self::Usage => "usage",
            Self::TtfbWatchdog => "watchdog",
            Self::Host => "host",
        }
    }
}

/// The facts of one call, shared by all layers through the request's extensions.
///
/// Each fact is set once; the first value stays. Users insert [`Caller`], [`ClientAddr`], [`Estimate`] or
/// [`Deadline`] as plain extensions, and every layer folds what it finds into the call with [`Call::of`].
/// Extensions are cloned by allocation, so one extension is better than seven.
#[derive(Clone, Debug, Default)]
pub struct Call(Arc<Facts>);

#[derive(Debug, Default)]
struct Facts {
    caller: OnceLock<Caller>,
    client_addr: OnceLock<ClientAddr>,
    ai: OnceLock<AiCall>,
    estimate: OnceLock<Estimate>,
    deadline: OnceLock<Deadline>,
    meter: UsageMeter,
    /// The layers that were entered, outermost in the lowest four bits.
    layers: AtomicU32,
}

impl Call {
    /// The call of a request: the one that is there, or a new one, with the user's extensions folded in.
    pub fn of(extensions: &mut Extensions) -> Self {
        let call = match extensions.get::<Self>() {
            Some(call) => call.clone(),
            None => {
                let call = Self::default();
                extensions.insert(call.clone());
                call
            }
        };
        fold(&call.0.caller, extensions);
        fold(&call.0.client_addr, extensions);
        fold(&call.0.estimate, extensions);
        fold(&call.0.deadline, extensions);
        call
    }

    /// Who is calling.
    pub fn caller(&self) -> Option<&Caller> {
        self.0.caller.get()
    }

    /// From which address.
    pub fn client_addr(&self) -> Option<ClientAddr> {
        self.0.client_addr.get().copied()
    }

    /// What is asked of a model; `None` when it is not a known AI call.
    pub fn ai(&self) -> Option<&AiCall> {
        self.0.ai.get()
    }

    /// What it may cost.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.0.estimate.get()
    }

    /// When the whole call has to be over.
    pub fn deadline(&self) -> Option<Deadline> {
        self.0.deadline.get().copied()
    }

    /// What the attempts used.
    pub fn meter(&self) -> &UsageMeter {
        &self.0.meter
    }

    /// Sets what is asked of a model, unless it is set.
    pub fn set_ai(&self, ai: AiCall) {
        let _ = self.0.ai.set(ai);
    }

    /// Sets the estimate, unless it is set: a handler's own stays.
    pub fn set_estimate(&self, estimate: Estimate) {
        let _ = self.0.estimate.set(estimate);
    }

    /// The deadline; the given one is set first if there is none. The outermost layer that bounds time does this.
    pub fn deadline_or(&self, deadline: impl FnOnce() -> Deadline) -> Deadline {
        *self.0.deadline.get_or_init(deadline)
    }

    /// A layer notes itself when the request enters it; a second time (another attempt) changes nothing.
    pub fn enter(&self, layer: LayerKind) {
        let _ = self
            .0
            .layers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |layers| {
                let free = (32 - layers.leading_zeros()).next_multiple_of(4);
                (!contains(layers, layer) && free < 32).then_some(layers | u32::from(layer as u8) << free)
            });
    }

    /// Whether the request entered this layer.
    pub fn has(&self, layer: LayerKind) -> bool {
        contains(self.0.layers.load(Ordering::Relaxed), layer)
    }

    /// The layers that the request entered, outermost first: for a log line that explains a stack.
    pub fn layers(&self) -> impl Iterator<Item = LayerKind> + use<> {
        let layers = self.0.layers.load(Ordering::Relaxed);
        (0..32).step_by(4).filter_map(move |at| {
            LayerKind::IN_ORDER
                .into_iter()
                .find(|layer| u32::from(*layer as u8) == layers >> at & 0xf)
        })
    }
}

fn contains(layers: u32, layer: LayerKind) -> bool {
    (0..32)
        .step_by(4)
        .any(|at| layers >> at & 0xf == u32::from(layer as u8))
}

fn fold<T: Clone + Send + Sync + 'static>(cell: &OnceLock<T>, extensions: &Extensions) {
    if cell.get().is_none()
        && let Some(fact) = extensions.get::<T>()
    {
        let _ = cell.set(fact.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_insert_is_folded_into_one_call() {
        let mut extensions = Extensions::new();
        extensions.insert(Caller::new("acme").unwrap());
        let outer = Call::of(&mut extensions);
        assert_eq!(outer.caller().unwrap().tenant.as_str(), "acme");

        extensions.insert(Estimate::given(1, 2).unwrap()); // a handler between two layers
        let inner = Call::of(&mut extensions);
        assert_eq!(outer.estimate(), inner.estimate());
        assert!(outer.estimate().is_some());
    }

    #[test]
    fn the_first_value_of_a_fact_stays() {
        let call = Call::default();
        call.set_estimate(Estimate::given(1, 2).unwrap());
        call.set_estimate(Estimate::assumed());
        assert_eq!(call.estimate().unwrap().counts().input, 1);
    }

    #[test]
    fn layers_are_noted_once_in_the_order_of_entry() {
        let call = Call::default();
        for layer in [
            LayerKind::Budget,
            LayerKind::Failover,
            LayerKind::Usage,
            LayerKind::Usage,
        ] {
            call.enter(layer);
        }
        assert!(call.has(LayerKind::Usage) && !call.has(LayerKind::Estimate));
        let order: Vec<_> = call.layers().map(LayerKind::as_str).collect();
        assert_eq!(order, ["budget", "failover", "usage"]);
    }

    #[test]
    fn an_attempt_shares_the_call_of_its_request() {
        let mut extensions = Extensions::new();
        let call = Call::of(&mut extensions);
        let mut attempt = extensions.clone();
        Call::of(&mut attempt).meter().sent(1);
        assert!(call.meter().any_sent());
    }
}
