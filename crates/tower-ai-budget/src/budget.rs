//! What a plan may spend.

use crate::{Account, Amount, Claim, Period, Unit, Window};
use std::sync::Arc;
use tower_ai_core::{Caller, ConfigError, NanoUsd, usd};

const DEFAULT_REQUEST_CAP: NanoUsd = usd!(0.80);
const DEFAULT_ALERT_PERCENT: u8 = 80;

/// What an account may spend in a window, and in one call. [`BudgetLayer::new`](crate::BudgetLayer::new) checks it.
///
/// ```
/// use tower_ai_budget::Budget;
/// use tower_ai_core::{Plans, usd};
///
/// let budgets = Plans::fallback("free")
///     .plan("free", Budget::daily(usd!(2.00)))
///     .plan("pro", Budget::daily(usd!(20.00)).request_cap(usd!(4.00)).alert_at_percent(50).alert_at_percent(90))
///     .plan("batch", Budget::monthly(usd!(900)).no_request_cap().in_zone("Asia/Beirut"))
///     .plan("trial", Budget::daily_requests(50))
///     .plan("seats", Budget::monthly_tokens(2_000_000)); // two thousand thousands
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Budget {
    period: Period,
    limit: Amount,
    request_cap: Option<NanoUsd>,
    /// Empty: the default.
    alert_at: Vec<u8>,
    zone: String,
    per_user: bool,
}

impl Budget {
    /// `limit` from midnight to midnight UTC, at most 0.80 USD in one call, an alert at 80 %, for each tenant.
    pub fn daily(limit: NanoUsd) -> Self {
        Self::new(Period::Day, Amount::usd(limit))
    }

    /// Like [`Budget::daily`], from Monday to Monday.
    pub fn weekly(limit: NanoUsd) -> Self {
        Self::new(Period::Week, Amount::usd(limit))
    }

    /// Like [`Budget::daily`], from the first of a month to that of the next.
    pub fn monthly(limit: NanoUsd) -> Self {
        Self::new(Period::Month, Amount::usd(limit))
    }

    /// Like [`Budget::daily`], but `limit` is a number of calls. One that nobody bills is not counted. The cap of one
    /// call stays, in dollars, for calls whose cost is known.
    pub fn daily_requests(limit: u64) -> Self {
        Self::new(Period::Day, Amount::count(limit, Unit::Requests))
    }

    /// Like [`Budget::daily_requests`], from Monday to Monday.
    pub fn weekly_requests(limit: u64) -> Self {
        Self::new(Period::Week, Amount::count(limit, Unit::Requests))
    }

    /// Like [`Budget::daily_requests`], from the first of a month to that of the next.
    pub fn monthly_requests(limit: u64) -> Self {
        Self::new(Period::Month, Amount::count(limit, Unit::Requests))
    }

    /// Like [`Budget::daily`], but `limit` is a number of tokens, input and output together: 2,000 thousand are
    /// `2_000_000`. The cap of one call stays, in dollars, for calls whose cost is known.
    pub fn daily_tokens(limit: u64) -> Self {
        Self::new(Period::Day, Amount::count(limit, Unit::Tokens))
    }

    /// Like [`Budget::daily_tokens`], from Monday to Monday.
    pub fn weekly_tokens(limit: u64) -> Self {
        Self::new(Period::Week, Amount::count(limit, Unit::Tokens))
    }

    /// Like [`Budget::daily_tokens`], from the first of a month to that of the next.
    pub fn monthly_tokens(limit: u64) -> Self {
        Self::new(Period::Month, Amount::count(limit, Unit::Tokens))
    }

    fn new(period: Period, limit: Amount) -> Self {
        Self {
            period,
            limit,
            request_cap: Some(DEFAULT_REQUEST_CAP),
            alert_at: Vec::new(),
            zone: "UTC".to_owned(),
            per_user: false,
        }
    }

    /// The most that one call may cost; exactly that passes. Default: 0.80 USD.
    pub fn request_cap(mut self, cap: NanoUsd) -> Self {
        self.request_cap = Some(cap);
        self
    }

    /// One call may cost as much as the whole budget.
    pub fn no_request_cap(mut self) -> Self {
        self.request_cap = None;
        self
    }

    /// Alerts when this part of the limit is spent, from 1 to 100 %. Call it again for more thresholds. Default: 80 %.
    pub fn alert_at_percent(mut self, percent: u8) -> Self {
        self.alert_at.push(percent);
        self
    }

    /// The time zone of the calendar, by its IANA name. Default: `UTC`.
    pub fn in_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// Each user of a tenant has this budget, and so has the tenant for calls that name no user.
    pub fn per_user(mut self) -> Self {
        self.per_user = true;
        self
    }

    /// Checks it.
    pub(crate) fn plan(self, name: &str) -> Result<Plan, ConfigError> {
        if self.limit.value() <= 0 {
            return Err(ConfigError::new("limit", "a budget has to be above 0"));
        }
        if self.request_cap.is_some_and(|cap| cap <= NanoUsd::ZERO) {
            return Err(ConfigError::new(
                "request_cap",
                "the cap of a call has to be above 0",
            ));
        }
        for (at, percent) in self.alert_at.iter().enumerate() {
            if !(1..=100).contains(percent) {
                let message = format!("{percent} % is not from 1 to 100 %");
                return Err(ConfigError::new("alert_at_percent", message));
            }
            if self.alert_at[..at].contains(percent) {
                return Err(ConfigError::new(
                    "alert_at_percent",
                    format!("{percent} % is there twice"),
                ));
            }
        }
        Ok(Plan {
            name: name.into(),
            window: Window::new(self.period, &self.zone)?,
            limit: self.limit,
            request_cap: self.request_cap,
            alert_at: match &self.alert_at[..] {
                [] => [DEFAULT_ALERT_PERCENT].into(),
                percents => percents.into(),
            },
            per_user: self.per_user,
        })
    }
}

/// A budget that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    name: Arc<str>,
    window: Window,
    pub(crate) limit: Amount,
    pub(crate) request_cap: Option<NanoUsd>,
    alert_at: Arc<[u8]>,
    per_user: bool,
}

impl Plan {
    /// What is claimed for a call of this caller; without one, for the shared account.
    pub(crate) fn claim(&self, caller: Option<&Caller>) -> Claim {
        let account = match caller {
            None => Account::Anonymous,
            Some(Caller {
                tenant,
                user: Some(user),
                ..
            }) if self.per_user => Account::User {
                tenant: tenant.clone(),
                user: user.clone(),
            },
            Some(Caller { tenant, .. }) => Account::Tenant(tenant.clone()),
        };
        Claim {
            alert_at: self.alert_at.clone(),
            plan: self.name.clone(),
            ..Claim::new(account, self.window.clone(), self.limit)
        }
    }
}
