//! Exact money. No floats: an amount is an integer of nano-dollars, and products of
//! price and quantity are kept in pico-dollars until they are rounded once, upward.

use std::{fmt, iter::Sum, str::FromStr};

/// US dollars as an integer of nano-dollars (10⁻⁹ USD), negative for a debt.
///
/// The range is ± 9.2 billion USD. Arithmetic is checked: an overflow is `None`, never a wrapped sum.
///
/// ```
/// use tower_ai_core::{NanoUsd, usd};
///
/// let spent = usd!(1.20).checked_add(usd!(0.000_000_5)).unwrap();
/// assert_eq!(spent.to_string(), "1.2000005");
/// assert_eq!(spent.cents().to_string(), "120.00005");
/// assert_eq!("0.80".parse::<NanoUsd>().unwrap(), usd!(0.80));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(i64);

/// US dollars as an integer of pico-dollars (10⁻¹² USD): the unit of a price per token, and of sums of
/// price × quantity before they are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PicoUsd(i128);

const NANOS_PER_USD: i64 = 1_000_000_000;
const NANOS_PER_CENT: i64 = NANOS_PER_USD / 100;
const PICOS_PER_NANO: i128 = 1_000;

impl NanoUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount there is, about 9.2 billion USD.
    pub const MAX: Self = Self(i64::MAX);

    /// An amount of `nanos` × 10⁻⁹ USD.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The amount in 10⁻⁹ USD.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The sum, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` on overflow.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// The sum, kept at the end of the range on overflow. For figures that are shown, not for a ledger.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, kept at the end of the range on overflow. For figures that are shown, not for a ledger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Prints the amount in cents as an exact decimal: `120.00005`.
    pub const fn cents(self) -> Cents {
        Cents(self)
    }

    /// Reads a decimal number of dollars, at compile time too; [`usd!`](crate::usd) is the short form.
    ///
    /// # Panics
    /// When `text` is not a plain decimal number with at most nine places.
    #[doc(hidden)]
    pub const fn parse_literal(text: &str) -> Self {
        match parse(text.as_bytes()) {
            Ok(amount) => amount,
            Err(_) => {
                panic!("write dollars as a plain decimal with at most nine places, such as 2.00")
            }
        }
    }
}

impl PicoUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount of `picos` × 10⁻¹² USD.
    pub const fn from_picos(picos: i128) -> Self {
        Self(picos)
    }

    /// The amount in 10⁻¹² USD.
    pub const fn picos(self) -> i128 {
        self.0
    }

    /// This price times a quantity, or `None` on overflow.
    pub const fn checked_mul(self, quantity: u64) -> Option<Self> {
        match self.0.checked_mul(quantity as i128) {
            Some(product) => Some(Self(product)),
            None => None,
        }
    }

    /// The sum, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Rounds up to whole nano-dollars: what is reserved or charged is never less than the price.
    /// `None` when it does not fit.
    pub const fn round_up(self) -> Option<NanoUsd> {
        let floor = self.0.div_euclid(PICOS_PER_NANO);
        let nanos = if self.0.rem_euclid(PICOS_PER_NANO) == 0 {
            floor
        } else {
            floor + 1
        };
        if nanos > i64::MAX as i128 || nanos < i64::MIN as i128 {
            None
        } else {
            Some(NanoUsd(nanos as i64))
        }
    }
}

impl From<NanoUsd> for PicoUsd {
    fn from(amount: NanoUsd) -> Self {
        Self(i128::from(amount.0) * PICOS_PER_NANO)
    }
}

/// Saturates: sums of amounts are for reports.
impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::saturating_add)
    }
}

/// Dollars with at least two places and no trailing zeros beyond them: `2.00`, `0.0000375`.
impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, NANOS_PER_USD, 2)
    }
}

/// An amount in cents; prints an exact decimal that is a JSON number. See [`NanoUsd::cents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cents(NanoUsd);

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0.0, NANOS_PER_CENT, 0)
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, amount: i64, unit: i64, min_places: usize) -> fmt::Result {
    let (amount, unit) = (i128::from(amount), i128::from(unit));
    let sign = if amount < 0 { "-" } else { "" };
    let places = unit.ilog10() as usize;
    let mut fraction = format!("{:0places$}", amount.abs() % unit);
    let kept = fraction.trim_end_matches('0').len().max(min_places);
    fraction.truncate(kept);
    let dot = if kept == 0 { "" } else { "." };
    write!(f, "{sign}{}{dot}{fraction}", amount.abs() / unit)
}

/// A text that is not an amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseUsdError;

impl fmt::Display for ParseUsdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an amount of dollars: write a plain decimal with at most nine places, such as 0.80")
    }
}

impl std::error::Error for ParseUsdError {}

impl FromStr for NanoUsd {
    type Err = ParseUsdError;

    fn from_str(text: &str) -> Result<Self, ParseUsdError> {
        parse(text.as_bytes())
    }
}

const fn parse(text: &[u8]) -> Result<NanoUsd, ParseUsdError> {
    let (mut nanos, mut digits, mut places, mut dot, mut i) = (0i64, 0, 0, false, 0);
    while i < text.len() {
        match text[i] {
            digit @ b'0'..=b'9' => {
                nanos = match nanos.checked_mul(10) {
                    Some(shifted) => match shifted.checked_add((digit - b'0') as i64) {
                        Some(next) => next,
                        None => return Err(ParseUsdError),
                    },
                    None => return Err(ParseUsdError),
                };
                digits += 1;
                if dot {
                    places += 1;
                }
            }
            b'.' if !dot => dot = true,
            b'_' => {}
            _ => return Err(ParseUsdError),
        }
        i += 1;
    }
    if digits == 0 || places > 9 {
        return Err(ParseUsdError);
    }
    while places < 9 {
        nanos = match nanos.checked_mul(10) {
            Some(shifted) => shifted,
            None => return Err(ParseUsdError),
        };
        places += 1;
    }
    Ok(NanoUsd(nanos))
}

/// An amount of dollars, checked at compile time: `usd!(2.00)`, `usd!(0.000_5)`.
///
/// ```compile_fail
/// let amount = tower_ai_core::usd!(0.000_000_000_1); // ten places
/// ```
#[macro_export]
macro_rules! usd {
    ($dollars:literal) => {
        const { $crate::NanoUsd::parse_literal(stringify!($dollars)) }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dollars_print_at_least_two_places_and_no_needless_zeros() {
        assert_eq!(usd!(2).to_string(), "2.00");
        assert_eq!(usd!(0.8).to_string(), "0.80");
        assert_eq!(usd!(0.000_037_5).to_string(), "0.0000375");
        assert_eq!(NanoUsd::from_nanos(-120_000_000).to_string(), "-0.12");
    }

    #[test]
    fn cents_are_exact_decimals_never_whole_cents() {
        assert_eq!(usd!(0.0015).cents().to_string(), "0.15");
        assert_eq!(usd!(2).cents().to_string(), "200");
        assert_eq!(NanoUsd::from_nanos(1).cents().to_string(), "0.0000001");
        assert_eq!(
            NanoUsd::from_nanos(i64::MIN).cents().to_string(),
            "-922337203685.4775808"
        );
    }

    #[test]
    fn a_price_is_rounded_once_and_upward() {
        let per_token = PicoUsd::from_picos(37_500);
        assert_eq!(
            per_token.checked_mul(1).unwrap().round_up(),
            Some(NanoUsd::from_nanos(38))
        );
        assert_eq!(
            per_token.checked_mul(2).unwrap().round_up(),
            Some(NanoUsd::from_nanos(75))
        );
        assert_eq!(PicoUsd::from_picos(i128::MAX).round_up(), None);
    }

    #[test]
    fn what_is_no_plain_decimal_is_refused() {
        for text in ["", ".", "-1", "1e3", "$2", "1.0000000001", "99999999999", " 1"] {
            assert_eq!(text.parse::<NanoUsd>(), Err(ParseUsdError), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_survives_printing_and_reading(nanos in 0..=i64::MAX) {
            let amount = NanoUsd::from_nanos(nanos);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }
    }
}
