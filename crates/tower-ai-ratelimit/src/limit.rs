//! Which limits there are, by key.

use crate::{
    Algorithm,
    gcra::Gcra,
    headers::Policy,
    key::{By, KeySource},
};
use http::request::Parts;
use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};
use tower_ai_core::ConfigError;

/// The most limits that one request can meet.
pub const MAX_LIMITS: usize = 8;

/// The longest name of a limit in bytes.
const MAX_NAME_BYTES: usize = 64;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Requests, one each.
    Requests,
    /// Tokens read and generated: reserved by the estimate, corrected by what was used.
    Tokens,
}

/// Limits by what they are counted for. A request must fit all of them, and is counted in all of them or in none.
///
/// ```
/// use tower_ai_ratelimit::{Limits, MINUTE, SECOND, bucket};
///
/// let limits = Limits::per_tenant()
///     .requests("rpm", bucket(100).refill(10).per(SECOND))
///     .tokens("tpm", bucket(40_000).refill(40_000).per(MINUTE))
///     .and(Limits::per_user().requests("user", bucket(10).refill(1).per(SECOND)))
///     .and(Limits::in_all().requests("all", bucket(2_000).refill(500).per(SECOND)));
/// ```
///
/// Names are unique within a set. In one store, limits of the same name and the same key are the same limit,
/// whichever layer or plan names them: a caller whose plan changes keeps the time at which its limit is full again.
#[derive(Clone, Debug)]
#[must_use = "limits do nothing until a `RateLimitLayer` has them"]
pub struct Limits {
    source: KeySource,
    limits: Vec<Named>,
}

#[derive(Clone, Debug)]
struct Named {
    source: KeySource,
    name: Cow<'static, str>,
    unit: Unit,
    algorithm: Algorithm,
}

impl Limits {
    /// For each [`Caller::tenant`](tower_ai_core::Caller).
    pub fn per_tenant() -> Self {
        Self::by(KeySource::Tenant)
    }

    /// For each [`Caller::user`](tower_ai_core::Caller) of a tenant.
    pub fn per_user() -> Self {
        Self::by(KeySource::User)
    }

    /// For each [`ClientAddr`](tower_ai_core::ClientAddr); an IPv6 network (/64) counts as one address.
    pub fn per_client_addr() -> Self {
        Self::by(KeySource::ClientAddr)
    }

    /// For all requests together.
    pub fn in_all() -> Self {
        Self::by(KeySource::All)
    }

    /// For each key that `key` finds in the request; `None` is a missing key.
    pub fn keyed_by(key: fn(&Parts) -> Option<String>) -> Self {
        Self::by(KeySource::Custom(key))
    }

    fn by(source: KeySource) -> Self {
        Self {
            source,
            limits: Vec::new(),
        }
    }

    /// Limits the number of requests.
    pub fn requests(self, name: impl Into<Cow<'static, str>>, algorithm: impl Into<Algorithm>) -> Self {
        self.limit(name.into(), Unit::Requests, algorithm.into())
    }

    /// Limits tokens: the estimated ones are reserved, and corrected when the usage is known.
    pub fn tokens(self, name: impl Into<Cow<'static, str>>, algorithm: impl Into<Algorithm>) -> Self {
        self.limit(name.into(), Unit::Tokens, algorithm.into())
    }

    /// Adds limits that are counted for something else.
    pub fn and(mut self, others: Self) -> Self {
        self.limits.extend(others.limits);
        self
    }

    fn limit(mut self, name: Cow<'static, str>, unit: Unit, algorithm: Algorithm) -> Self {
        self.limits.push(Named {
            source: self.source,
            name,
            unit,
            algorithm,
        });
        self
    }

    /// Checks the limits of a plan and makes them ready for use.
    pub(crate) fn build(self, plan: &str) -> Result<LimitSet, ConfigError> {
        if self.limits.is_empty() {
            return Err(ConfigError::new("", "there is no limit in it"));
        }
        if self.limits.len() > MAX_LIMITS {
            let message = format!("{} limits, at most {MAX_LIMITS} are allowed", self.limits.len());
            return Err(ConfigError::new("", message));
        }
        let mut sources: Vec<KeySource> = Vec::new();
        let mut limits: Vec<Limit> = Vec::new();
        for named in self.limits {
            check_name(&named.name)?;
            if limits.iter().any(|earlier| earlier.name == named.name) {
                return Err(ConfigError::new(named.name, "the limit is defined twice"));
            }
            let source = sources
                .iter()
                .position(|known| known.is_same(&named.source))
                .unwrap_or_else(|| {
                    sources.push(named.source);
                    sources.len() - 1
                });
            limits.push(Limit::new(named, source)?);
        }
        Ok(LimitSet {
            plan: (!plan.is_empty()).then(|| plan.into()),
            sources,
            policy: Policy::of(&limits),
            limits,
        })
    }
}

/// A name goes into header fields as it is.
fn check_name(name: &str) -> Result<(), ConfigError> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    let message = if name.is_empty() {
        "a limit has no name".to_owned()
    } else if name.len() > MAX_NAME_BYTES {
        format!("a name has at most {MAX_NAME_BYTES} bytes")
    } else if !name.bytes().all(is_plain) {
        "a name is printable ASCII without quotes and backslashes".to_owned()
    } else {
        return Ok(());
    };
    Err(ConfigError::new(name, message))
}

/// One limit, checked: what a [`Store`](crate::Store) decides by.
#[derive(Clone, Debug)]
pub struct Limit {
    name: Cow<'static, str>,
    by: By,
    unit: Unit,
    algorithm: Algorithm,
    gcra: Gcra,
    /// Which of the set's keys it is counted for.
    pub(crate) source: usize,
    /// Its place in the records of its keys: the same for the same name.
    pub(crate) slot: usize,
}

impl Limit {
    fn new(named: Named, source: usize) -> Result<Self, ConfigError> {
        let gcra = named
            .algorithm
            .compile()
            .map_err(|message| ConfigError::new(named.name.clone(), message))?;
        let by = named.source.by();
        Ok(Self {
            slot: slot_of(by, &named.name),
            name: named.name,
            by,
            unit: named.unit,
            algorithm: named.algorithm,
            gcra,
            source,
        })
    }

    /// The configured name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is counted for.
    pub fn by(&self) -> By {
        self.by
    }

    /// What it counts.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// How it counts.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn shared_name(&self) -> Cow<'static, str> {
        self.name.clone()
    }

    pub(crate) fn gcra(&self) -> &Gcra {
        &self.gcra
    }
}

/// The limits of one plan.
#[derive(Debug)]
pub(crate) struct LimitSet {
    /// `None` for limits without plans.
    pub(crate) plan: Option<Arc<str>>,
    /// Where the keys come from, each once.
    pub(crate) sources: Vec<KeySource>,
    /// In the order of configuration.
    pub(crate) limits: Vec<Limit>,
    pub(crate) policy: Policy,
}

impl LimitSet {
    pub(crate) fn limit(&self, name: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.name == name)
    }
}

/// A small number for a name among the limits of one kind of key, the same for the same name in the whole process.
///
/// A record in memory has a place for each limit of its key, with no room for names. Numbers are given out when
/// layers are built, so there are as many as there are names in the configuration.
fn slot_of(by: By, name: &str) -> usize {
    static NAMES: Mutex<Vec<(By, String)>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_kind = names.iter().filter(|(kind, _)| *kind == by);
    match of_kind.clone().position(|(_, known)| known == name) {
        Some(slot) => slot,
        None => {
            let slot = of_kind.by_ref().count();
            names.push((by, name.to_owned()));
            slot
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SECOND, bucket};

    #[test]
    fn a_name_has_one_slot_among_the_limits_of_its_key() {
        let slots = |limits: Limits| -> Vec<usize> {
            let set = limits.build("").unwrap();
            set.limits.iter().map(|limit| limit.slot).collect()
        };
        let one = bucket(1).refill(1).per(SECOND);
        let both = slots(Limits::per_tenant().requests("slot-a", one).tokens("slot-b", one));
        assert_ne!(both[0], both[1]);
        assert_eq!(slots(Limits::per_tenant().tokens("slot-b", one)), both[1..]);
    }

    #[test]
    fn keys_of_one_kind_are_made_once() {
        let one = bucket(1).refill(1).per(SECOND);
        let limits = Limits::per_tenant()
            .requests("a", one)
            .and(Limits::per_user().requests("b", one))
            .and(Limits::per_tenant().requests("c", one));
        let set = limits.build("").unwrap();
        assert_eq!(set.sources.len(), 2);
        let sources: Vec<_> = set.limits.iter().map(|limit| limit.source).collect();
        assert_eq!(sources, [0, 1, 0]);
    }
}
