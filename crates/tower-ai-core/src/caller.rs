//! Who is calling: put into the request's extensions by your authentication.

use std::{fmt, net::IpAddr, sync::Arc};

/// Longest [`Id`] in bytes; longer ones would let a caller fill logs and key tables.
pub const MAX_ID_BYTES: usize = 256;

/// A name of a tenant, user or plan: 1 to 256 bytes, no control characters, so that it is safe in logs,
/// headers and store keys. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<str>);

impl Id {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`InvalidId`] when it is empty, longer than [`MAX_ID_BYTES`], or has a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidId> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(InvalidId::Empty);
        }
        if name.len() > MAX_ID_BYTES {
            return Err(InvalidId::TooLong(name.len()));
        }
        match name.chars().position(char::is_control) {
            Some(at) => Err(InvalidId::Control(at)),
            None => Ok(Self(name.into())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<&str> for Id {
    type Error = InvalidId;

    fn try_from(name: &str) -> Result<Self, InvalidId> {
        Self::new(name)
    }
}

impl TryFrom<String> for Id {
    type Error = InvalidId;

    fn try_from(name: String) -> Result<Self, InvalidId> {
        Self::new(name)
    }
}

/// Why a name was not taken. It does not repeat the name, which may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidId {
    /// Nothing in it.
    Empty,
    /// Its length in bytes is above [`MAX_ID_BYTES`].
    TooLong(usize),
    /// A control character, such as a line break, at this character.
    Control(usize),
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the id is empty"),
            Self::TooLong(bytes) => write!(f, "the id has {bytes} bytes, at most {MAX_ID_BYTES} are allowed"),
            Self::Control(at) => write!(f, "the id has a control character at position {at}"),
        }
    }
}

impl std::error::Error for InvalidId {}

/// The authenticated caller. **Put by** your authentication; **read by** limits, budgets and spans.
/// Absent: each layer's missing-caller rule applies (refuse with 401 by default).
///
/// ```
/// use tower_ai_core::Caller;
///
/// # fn main() -> Result<(), tower_ai_core::InvalidId> {
/// let caller = Caller::new("acme")?.user("ann")?.plan("growth")?;
/// assert_eq!(caller.tenant.as_str(), "acme");
/// assert!(Caller::new("acme\nfake log line").is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// The account that pays and is limited.
    pub tenant: Id,
    /// A person or key within the tenant.
    pub user: Option<Id>,
    /// The plan by name; absent or unknown means the fallback plan.
    pub plan: Option<Id>,
}

impl Caller {
    /// A caller of this tenant, with no user and no plan.
    ///
    /// # Errors
    /// [`InvalidId`], see [`Id::new`].
    pub fn new(tenant: impl AsRef<str>) -> Result<Self, InvalidId> {
        Ok(Self {
            tenant: Id::new(tenant)?,
            user: None,
            plan: None,
        })
    }

    /// Names the user within the tenant.
    ///
    /// # Errors
    /// [`InvalidId`], see [`Id::new`].
    pub fn user(mut self, user: impl AsRef<str>) -> Result<Self, InvalidId> {
        self.user = Some(Id::new(user)?);
        Ok(self)
    }

    /// Names the plan.
    ///
    /// # Errors
    /// [`InvalidId`], see [`Id::new`].
    pub fn plan(mut self, plan: impl AsRef<str>) -> Result<Self, InvalidId> {
        self.plan = Some(Id::new(plan)?);
        Ok(self)
    }

    /// The plan's name, if one is set.
    pub fn plan_name(&self) -> Option<&str> {
        self.plan.as_ref().map(Id::as_str)
    }
}

/// The client's address as you trust it. **Put by** your server or proxy handling; **read by** limits per address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddr(pub IpAddr);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_a_line_break_is_refused_without_repeating_it() {
        let error = Caller::new("a\nb").unwrap_err();
        assert_eq!(error, InvalidId::Control(1));
        assert!(!error.to_string().contains('\n'));
    }

    #[test]
    fn an_id_has_a_length_limit() {
        assert!(Id::new("x".repeat(MAX_ID_BYTES)).is_ok());
        assert_eq!(Id::new("x".repeat(257)), Err(InvalidId::TooLong(257)));
        assert_eq!(Id::new(""), Err(InvalidId::Empty));
    }
}
