//! What a request may cost: pure, once its body is there.

use super::{fast, layer::Unpriced, own_counts, rejection::Rejection};
use crate::{PriceQuery, Prices, asked};
use http::{header::CONTENT_TYPE, request::Parts};
use memchr::memmem;
use std::sync::Arc;
use tower_ai_core::{Call, Dialect, Estimate, NanoUsd, Operation, RefusalFormat, TokenCounts};
use tower_ai_wire::read_request;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) prices: Prices,
    pub(super) assumed_output: u64,
    pub(super) attachment_tokens: u64,
    pub(super) unpriced: Unpriced,
    pub(super) own_counts_as: Option<Arc<str>>,
}

/// What is read of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A known AI call.
    Call(Operation),
    /// Counts that the caller brings, priced as this model.
    OwnCounts(Arc<str>),
}

impl Rules {
    /// `None`: the request passes unread.
    pub(super) fn subject(&self, parts: &Parts) -> Option<Subject> {
        let own_counts = || self.own_counts_as.clone().filter(|_| is_json(parts));
        asked::operation_of(parts)
            .map(Subject::Call)
            .or_else(|| own_counts().map(Subject::OwnCounts))
    }

    /// Puts what is asked and what it may cost into the request's [`Call`]. An estimate that is there stays; only a
    /// missing cost is added to it.
    pub(super) fn judge(&self, subject: &Subject, parts: &mut Parts, body: &[u8]) -> Result<(), Rejection> {
        let given = parts.extensions.get::<Estimate>().copied();
        let (ai, estimate) = match subject {
            Subject::Call(operation) => {
                let request = read_request(*operation, body).map_err(Rejection::Request)?;
                let estimate = match given {
                    Some(given) => given,
                    None => fast::estimate(&request, self).map_err(Rejection::Estimate)?,
                };
                let mut query = PriceQuery::new(&request.model).dialect(operation.dialect());
                query.tier = request.service_tier.as_deref();
                let estimate = self.priced(estimate, query, CacheWrites::asked_in(body));
                (Some(asked::ai_call(*operation, &request)), estimate)
            }
            Subject::OwnCounts(model) => {
                let estimate = match given {
                    Some(given) => given,
                    None => own_counts::estimate(body)?,
                };
                (
                    None,
                    self.priced(estimate, PriceQuery::new(model), CacheWrites::None),
                )
            }
        };
        if estimate.cost().is_none() && self.unpriced == Unpriced::Refuse {
            return Err(Rejection::Unpriced);
        }
        if given.is_some() {
            parts.extensions.insert(estimate);
        }
        let call = Call::of(&mut parts.extensions);
        call.set_estimate(estimate);
        if let Some(ai) = ai {
            call.set_ai(ai);
        }
        Ok(())
    }

    fn priced(&self, estimate: Estimate, query: PriceQuery<'_>, writes: CacheWrites) -> Estimate {
        let query = query.at(self.prices.now());
        let cost = |counts: &TokenCounts| self.prices.price(&query, counts);
        match estimate
            .cost()
            .or_else(|| writes.dearest(estimate.counts(), cost))
        {
            Some(cost) => estimate.with_cost(cost),
            None => estimate,
        }
    }
}

/// The shape of refusals: an AI call gets its own dialect's, whatever base its path has. Inner layers do the same.
pub(super) fn format(subject: &Subject, parts: &mut Parts) -> RefusalFormat {
    match (RefusalFormat::of(parts), subject) {
        (RefusalFormat::Problem, Subject::Call(operation)) => {
            let own = match operation.dialect() {
                Dialect::Anthropic => RefusalFormat::Anthropic,
                _ => RefusalFormat::OpenAi,
            };
            *parts.extensions.get_or_insert_with(|| own)
        }
        (told, _) => told,
    }
}

/// Whether, and for how long, the prompt may be written to a cache, which costs more than reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheWrites {
    None,
    FiveMinutes,
    OneHour,
}

impl CacheWrites {
    /// Quotes inside a JSON string are escaped, so a name with both of its quotes is a member.
    fn asked_in(body: &[u8]) -> Self {
        let has = |name: &str| memmem::find(body, name.as_bytes()).is_some();
        match has("\"cache_control\"") || has("\"prompt_cache_") {
            false => Self::None,
            true if has("\"1h\"") => Self::OneHour,
            true => Self::FiveMinutes,
        }
    }

    /// The cost if nothing, or if all of the input is written to the cache, whichever is more.
    fn dearest(
        self,
        counts: &TokenCounts,
        cost: impl Fn(&TokenCounts) -> Option<NanoUsd>,
    ) -> Option<NanoUsd> {
        let plain = cost(counts)?;
        let mut written = *counts;
        match self {
            Self::None => return Some(plain),
            Self::FiveMinutes => written.cache_write_5m = counts.input_uncached(),
            Self::OneHour => written.cache_write_1h = counts.input_uncached(),
        }
        cost(&written).map(|written| written.max(plain))
    }
}

fn is_json(parts: &Parts) -> bool {
    parts.headers.get(CONTENT_TYPE).is_some_and(|value| {
        let media_type = value.as_bytes().split(|byte| *byte == b';').next();
        let media_type = media_type.unwrap_or_default().trim_ascii().to_ascii_lowercase();
        media_type == b"application/json" || media_type.ends_with(b"+json")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_write_is_asked_for_by_a_member_not_by_a_text() {
        let asked = |body: &str| CacheWrites::asked_in(body.as_bytes());
        assert_eq!(
            asked(r#"{"cache_control": {"type": "ephemeral"}}"#),
            CacheWrites::FiveMinutes
        );
        assert_eq!(asked(r#"{"cache_control": {"ttl": "1h"}}"#), CacheWrites::OneHour);
        assert_eq!(asked(r#"{"prompt_cache_key": "a"}"#), CacheWrites::FiveMinutes);
        assert_eq!(
            asked(r#"{"text": "what is \"cache_control\"?"}"#),
            CacheWrites::None
        );
    }

    #[test]
    fn an_estimate_takes_the_dearest_plausible_input_rate() {
        let nanos =
            |counts: &TokenCounts| Some(NanoUsd::from_nanos((counts.input + counts.cache_write_1h) as i64));
        let counts = TokenCounts::new(100, 0);
        assert_eq!(CacheWrites::None.dearest(&counts, nanos).unwrap().nanos(), 100);
        assert_eq!(CacheWrites::OneHour.dearest(&counts, nanos).unwrap().nanos(), 200);
    }
}
