//! Alerts: a budget is running out.

use crate::{Account, Amount, Balance, Span, observe};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// What made an alert fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertCause {
    /// What is spent reached the threshold.
    Spent,
    /// A call is about to be refused although less is spent: open reservations leave no room for it, or it alone
    /// exceeds the budget.
    Reserved,
}

impl AlertCause {
    /// The name in labels and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spent => "spent",
            Self::Reserved => "reserved",
        }
    }
}

/// An account has used a part of its budget. Once per account, window and threshold, and never later than the first
/// refusal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Alert {
    /// Whose budget.
    pub account: Account,
    /// The plan that applies; empty if plans have no names.
    pub plan: Arc<str>,
    /// The threshold in percent of the limit.
    pub percent: u8,
    /// What made it fire.
    pub cause: AlertCause,
    /// Settled in this window.
    pub spent: Amount,
    /// Held by calls that are under way.
    pub reserved: Amount,
    /// The limit of the window.
    pub limit: Amount,
    /// The window.
    pub span: Span,
}

impl Alert {
    /// An alert about `balance`.
    pub fn new(balance: &Balance, plan: Arc<str>, percent: u8, cause: AlertCause) -> Self {
        Self {
            account: balance.account.clone(),
            plan,
            percent,
            cause,
            spent: balance.spent,
            reserved: balance.reserved,
            limit: balance.limit,
            span: balance.span.clone(),
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (account, percent) = (&self.account, self.percent);
        match self.cause {
            AlertCause::Spent => write!(f, "{account} has spent {percent} % of its budget")?,
            AlertCause::Reserved => write!(
                f,
                "{account} is refused before it has spent {percent} % of its budget"
            )?,
        }
        let Self {
            spent,
            reserved,
            limit,
            span,
            ..
        } = self;
        write!(
            f,
            ": {spent} spent and {reserved} reserved of {limit}, which resets at {span}"
        )
    }
}

/// Where alerts go: always a log event, then your hook. A ledger raises what a settlement sets off.
#[derive(Clone, Default)]
pub struct Alarm(Option<Arc<dyn Fn(Alert) + Send + Sync>>);

impl Alarm {
    /// With a hook. It runs on the task of a call, so it must not block: hand the alert to a channel.
    pub fn new(hook: impl Fn(Alert) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Logs and tells. A hook that panics is logged too, and harms nobody.
    pub fn raise(&self, alert: Alert) {
        observe::alert(&alert);
        let Some(hook) = &self.0 else { return };
        // Settling may run in a `Drop` while the stack unwinds: a second panic would end the process.
        if catch_unwind(AssertUnwindSafe(|| hook(alert))).is_err() {
            observe::hook_panicked();
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("hook", &self.0.is_some()).finish()
    }
}
