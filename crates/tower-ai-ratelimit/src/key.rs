//! What a limit is counted for: found in the request, or missing.

use http::request::Parts;
use std::net::IpAddr;
use tower_ai_core::{Call, ClientAddr};

/// What a limit is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum By {
    /// Each tenant.
    Tenant,
    /// Each user of a tenant.
    User,
    /// Each client address, or IPv6 /64 network.
    ClientAddr,
    /// All requests together.
    All,
    /// Each key that a function finds.
    Custom,
}

impl By {
    /// The name in labels and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::ClientAddr => "client_addr",
            Self::All => "all",
            Self::Custom => "custom",
        }
    }
}

/// One counted thing: the kind, and the values that tell it from others of its kind.
///
/// A [`Store`](crate::Store) makes its key of it. Values are separate, so that `("a", "bc")` and `("ab", "c")` stay
/// different; no values at all mean the shared anonymous account of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The kind.
    pub by: By,
    /// The values: tenant; tenant and user; address bytes; nothing; the function's key.
    pub values: &'a [&'a [u8]],
}

impl Scope<'_> {
    /// Whether an unauthenticated caller can invent such keys at will. A store keeps them apart from the others,
    /// so that a flood of them displaces nobody who is known.
    pub fn is_invented(&self) -> bool {
        matches!(self.by, By::ClientAddr | By::Custom) && !self.values.is_empty()
    }
}

/// What happens to a request that lacks the key of a limit (no `Caller`, no user, no address).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// 401, code `missing_caller`.
    #[default]
    Refuse,
    /// It is counted for one account, shared by all such requests; users without a name share one of their tenant.
    Anonymous,
    /// The limits of that key do not apply to it.
    Skip,
}

/// Where the key of a limit comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeySource {
    Tenant,
    User,
    ClientAddr,
    All,
    Custom(fn(&Parts) -> Option<String>),
}

impl KeySource {
    pub(crate) fn by(self) -> By {
        match self {
            Self::Tenant => By::Tenant,
            Self::User => By::User,
            Self::ClientAddr => By::ClientAddr,
            Self::All => By::All,
            Self::Custom(_) => By::Custom,
        }
    }

    /// Whether the other yields the same keys. Two functions that are the same may have different addresses; then
    /// their key is made twice, which is no harm.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Custom(one), Self::Custom(other)) => std::ptr::fn_addr_eq(*one, *other),
            _ => self.by() == other.by(),
        }
    }

    /// The key of a request, made by `make`; `Ok(None)` when it is skipped.
    ///
    /// # Errors
    /// The kind of the key that is missing, where that is refused.
    pub(crate) fn find<K>(
        self,
        parts: &Parts,
        call: &Call,
        missing: MissingKey,
        make: impl FnOnce(Scope<'_>) -> K,
    ) -> Result<Option<K>, By> {
        let by = self.by();
        let make = |values: &[&[u8]]| make(Scope { by, values });
        let caller = call.caller();
        let tenant = caller.map(|caller| caller.tenant.as_str().as_bytes());
        let user = caller.and_then(|caller| Some(caller.user.as_ref()?.as_str().as_bytes()));
        let (network, custom);
        let found: Option<([&[u8]; 2], usize)> = match self {
            Self::All => Some(([&[], &[]], 0)),
            Self::Tenant => tenant.map(|tenant| ([tenant, &[]], 1)),
            Self::User => tenant.zip(user).map(|(tenant, user)| ([tenant, user], 2)),
            Self::ClientAddr => {
                network = call.client_addr().map(Network::of);
                network.as_ref().map(|network| ([network.as_bytes(), &[]], 1))
            }
            Self::Custom(key) => {
                custom = key(parts);
                custom.as_ref().map(|key| ([key.as_bytes(), &[]], 1))
            }
        };
        match (found, missing) {
            (Some((values, count)), _) => Ok(Some(make(&values[..count]))),
            (None, MissingKey::Refuse) => Err(by),
            (None, MissingKey::Skip) => Ok(None),
            (None, MissingKey::Anonymous) => Ok(Some(match (self, tenant) {
                (Self::User, Some(tenant)) => make(&[tenant]),
                _ => make(&[]),
            })),
        }
    }
}

/// The part of an address that a client cannot choose: one IPv4 address, or an IPv6 network of 64 bits.
#[derive(Debug, PartialEq, Eq)]
struct Network {
    bytes: [u8; 8],
    length: usize,
}

impl Network {
    fn of(ClientAddr(addr): ClientAddr) -> Self {
        let (mut bytes, length) = ([0; 8], if addr.to_canonical().is_ipv4() { 4 } else { 8 });
        match addr.to_canonical() {
            IpAddr::V4(addr) => bytes[..length].copy_from_slice(&addr.octets()),
            IpAddr::V6(addr) => bytes.copy_from_slice(&addr.octets()[..length]),
        }
        Self { bytes, length }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use tower_ai_core::Caller;

    fn find(source: KeySource, caller: Option<Caller>, missing: MissingKey) -> Result<Option<String>, By> {
        let mut request = Request::new(());
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let call = Call::of(request.extensions_mut());
        let parts = request.into_parts().0;
        source.find(&parts, &call, missing, |scope| {
            let values = scope.values.iter().map(|value| String::from_utf8_lossy(value));
            values.collect::<Vec<_>>().join("|")
        })
    }

    #[test]
    fn a_key_that_is_missing_is_refused_shared_or_skipped() {
        assert_eq!(find(KeySource::Tenant, None, MissingKey::Refuse), Err(By::Tenant));
        assert_eq!(find(KeySource::Tenant, None, MissingKey::Skip), Ok(None));
        let shared = find(KeySource::Tenant, None, MissingKey::Anonymous);
        assert_eq!(shared, Ok(Some(String::new())));
        assert_eq!(
            find(KeySource::All, None, MissingKey::Refuse),
            Ok(Some(String::new()))
        );
    }

    #[test]
    fn users_without_a_name_share_one_account_of_their_tenant() {
        let caller = Caller::new("acme").unwrap();
        let found = find(KeySource::User, Some(caller.clone()), MissingKey::Anonymous);
        assert_eq!(found, Ok(Some("acme".to_owned())));
        let ann = find(KeySource::User, caller.user("ann").ok(), MissingKey::Refuse);
        assert_eq!(ann, Ok(Some("acme|ann".to_owned())));
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let of = |addr: &str| Network::of(ClientAddr(addr.parse().unwrap()));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
        assert_ne!(of("192.0.2.7"), of("192.0.2.8"));
    }
}
