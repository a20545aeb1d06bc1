//! Who pays.

use std::fmt;
use tower_ai_core::Id;

/// An account in a ledger. The kind is a part of it: a tenant that calls itself `anonymous` is not the anonymous
/// account, and user `b:c` of `a` is not user `c` of `a:b`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Account {
    /// A tenant.
    Tenant(Id),
    /// A user within a tenant.
    User {
        /// The tenant.
        tenant: Id,
        /// The user.
        user: Id,
    },
    /// A batch job of a tenant, with a budget apart from the daily one.
    Job {
        /// The tenant.
        tenant: Id,
        /// The job.
        job: Id,
    },
    /// All callers that nobody knows, together.
    Anonymous,
}

/// For people and logs: `tenant:acme`, `user:acme/ann`. No key: the names may have these signs in them.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(tenant) => write!(f, "tenant:{tenant}"),
            Self::User { tenant, user } => write!(f, "user:{tenant}/{user}"),
            Self::Job { tenant, job } => write!(f, "job:{tenant}/{job}"),
            Self::Anonymous => f.write_str("anonymous"),
        }
    }
}
