//! Amounts with their unit.

use std::fmt;
use tower_ai_core::NanoUsd;

/// What an account is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// 10⁻⁹ US dollars.
    NanoUsd,
    /// Calls.
    Requests,
    /// Tokens, input and output together.
    Tokens,
}

/// An integer of some unit. A ledger never adds amounts of different units.
///
/// ```
/// use tower_ai_budget::{Amount, Unit};
/// use tower_ai_core::usd;
///
/// assert_eq!(Amount::usd(usd!(0.80)).to_string(), "0.80 USD");
/// assert_eq!(Amount::new(3, Unit::Requests).to_string(), "3 requests");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Amount {
    value: i64,
    unit: Unit,
}

impl Amount {
    /// `value` of `unit`.
    pub const fn new(value: i64, unit: Unit) -> Self {
        Self { value, unit }
    }

    /// An amount of money.
    pub const fn usd(amount: NanoUsd) -> Self {
        Self::new(amount.nanos(), Unit::NanoUsd)
    }

    /// How many of the unit.
    pub const fn value(self) -> i64 {
        self.value
    }

    /// Of what.
    pub const fn unit(self) -> Unit {
        self.unit
    }

    /// The money, if it is an amount of money.
    pub const fn as_usd(self) -> Option<NanoUsd> {
        match self.unit {
            Unit::NanoUsd => Some(NanoUsd::from_nanos(self.value)),
            Unit::Requests | Unit::Tokens => None,
        }
    }

    /// So many calls or tokens; what no account can hold counts as the most that one can.
    pub(crate) fn count(value: u64, unit: Unit) -> Self {
        Self::new(i64::try_from(value).unwrap_or(i64::MAX), unit)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::NanoUsd => write!(f, "{} USD", NanoUsd::from_nanos(self.value)),
            Unit::Requests if self.value == 1 => f.write_str("1 request"),
            Unit::Requests => write!(f, "{} requests", self.value),
            Unit::Tokens => write!(f, "{} tokens", self.value),
        }
    }
}
