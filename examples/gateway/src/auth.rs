//! Who is calling: a key in the request, looked up among those of the configuration.

use crate::config::Config;
use http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use std::{
    collections::{HashMap, hash_map::RandomState},
    fmt,
    hash::BuildHasher,
};
use tower_ai_core::{Caller, ConfigError, LayerKind, Refusal, RefusalKind};

/// The keys that are let in, and who they belong to.
///
/// Neither kept nor compared as text: a key is looked up by two hashes whose seeds are drawn at the start, so that how
/// long a look-up takes tells nothing about a key.
#[derive(Default)]
pub struct Keys {
    seeds: [RandomState; 2],
    callers: HashMap<[u64; 2], Caller>,
}

impl Keys {
    /// Those of the configuration.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of a key that is there twice, has no text, or belongs to nobody.
    pub fn of(config: &Config) -> Result<Self, ConfigError> {
        let mut keys = Self::default();
        for (at, key) in config.keys.iter().enumerate() {
            let path = format!("keys[{at}]");
            let caller = key.caller().map_err(|error| error.within(&path))?;
            let secret = key.secret().map_err(|error| error.within(&path))?;
            if !keys.insert(&secret, caller) {
                return Err(ConfigError::new(path, "the key is there twice"));
            }
        }
        Ok(keys)
    }

    /// Lets `key` in as `caller`. False if the key is there already.
    pub fn insert(&mut self, key: &str, caller: Caller) -> bool {
        self.callers.insert(self.digest(key), caller).is_none()
    }

    /// The caller whose key the request carries, as `authorization: Bearer …` or `x-api-key`.
    ///
    /// # Errors
    /// There is no key, or it is not known.
    pub fn caller(&self, request: &Parts) -> Result<&Caller, KeyError> {
        let key = presented(&request.headers).ok_or(KeyError::Missing)?;
        self.callers.get(&self.digest(key)).ok_or(KeyError::Unknown)
    }

    fn digest(&self, key: &str) -> [u64; 2] {
        self.seeds.each_ref().map(|seed| seed.hash_one(key))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.callers.len())
    }
}

fn presented(headers: &HeaderMap) -> Option<&str> {
    let bearer = || {
        let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    };
    bearer()
        .or_else(|| headers.get("x-api-key")?.to_str().ok())
        .filter(|key| !key.is_empty())
}

/// Why nobody was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The request carries no key.
    Missing,
    /// Nobody has this key.
    Unknown,
}

/// A 401.
impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        let (code, message) = match error {
            KeyError::Missing => (
                "missing_caller",
                "no API key: send `authorization: Bearer KEY` or `x-api-key: KEY`",
            ),
            KeyError::Unknown => ("invalid_api_key", "this API key is not known here"),
        };
        Self::new(LayerKind::Host, RefusalKind::MissingCaller, code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn keys() -> Keys {
        let mut keys = Keys::default();
        assert!(keys.insert("sk-ann", Caller::new("acme").unwrap()));
        keys
    }

    fn with(name: &str, value: &str) -> Parts {
        Request::builder()
            .header(name, value)
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[test]
    fn a_key_is_found_in_either_header() {
        for (name, value) in [
            ("authorization", "Bearer sk-ann"),
            ("authorization", "bearer sk-ann"),
            ("x-api-key", "sk-ann"),
        ] {
            assert_eq!(
                keys().caller(&with(name, value)).unwrap().tenant.as_str(),
                "acme",
                "{name}"
            );
        }
    }

    #[test]
    fn a_key_that_is_missing_is_told_apart_from_one_that_is_wrong() {
        for (name, value, error) in [
            ("accept", "*/*", KeyError::Missing),
            ("authorization", "Basic sk-ann", KeyError::Missing),
            ("authorization", "Bearer ", KeyError::Missing),
            ("authorization", "Bearer sk-bob", KeyError::Unknown),
            ("x-api-key", "sk-ann2", KeyError::Unknown),
        ] {
            assert_eq!(keys().caller(&with(name, value)), Err(error), "{name}: {value}");
        }
    }

    #[test]
    fn the_same_key_twice_is_noticed() {
        assert!(!keys().insert("sk-ann", Caller::new("other").unwrap()));
    }
}
