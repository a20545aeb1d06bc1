//! Where a call can be sent, as configured and as checked.

use http::{
    HeaderValue, Uri,
    uri::{Authority, Scheme},
};
use std::{env, fmt, sync::Arc, time::Duration};
use tower_ai_core::{ConfigError, Dialect, Id};

/// The weight of an upstream that sets none.
pub const DEFAULT_WEIGHT: u32 = 100;

/// One place where a model is served, as configured. Setters never fail; [`FailoverLayer::new`] checks all of it.
///
/// The base is what the provider's own SDK calls its base URL, and replaces everything that precedes the operation's
/// own path: `https://api.openai.com/v1`, `https://api.anthropic.com` (a `/v1` at its end may be given or left out).
///
/// ```
/// use std::time::Duration;
/// use tower_ai_failover::Upstream;
///
/// let primary = Upstream::openai("openai", "https://api.openai.com/v1").key("sk-…").first_byte(Duration::from_secs(20));
/// let reserve = Upstream::openai("eu-gpus", "http://10.0.0.7:8000/v1").named("gpt5-eu").weight(10).region("eu");
/// assert!(!format!("{primary:?}").contains("sk-"));
/// # let _ = reserve;
/// ```
///
/// [`FailoverLayer::new`]: crate::FailoverLayer::new
#[derive(Clone, Debug)]
#[must_use = "an upstream does nothing until it is part of a route"]
pub struct Upstream {
    id: String,
    dialect: Option<Dialect>,
    base: Secret,
    key: Key,
    named: Option<String>,
    weight: u32,
    region: Option<Arc<str>>,
    first_byte: Option<Duration>,
    provider: Option<Arc<str>>,
    priced_as: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
enum Key {
    None,
    Given(Secret),
    FromEnv(String),
}

/// Text that is never printed: a key, or a URL in which somebody may have put one.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Upstream {
    /// An upstream that speaks OpenAI's dialect (OpenAI and the compatible crowd); its key travels as a bearer token.
    pub fn openai(id: impl Into<String>, base: impl Into<String>) -> Self {
        Self::new(id.into(), base.into(), Some(Dialect::OpenAi))
    }

    /// An upstream that speaks Anthropic's dialect; its key travels as `x-api-key`.
    pub fn anthropic(id: impl Into<String>, base: impl Into<String>) -> Self {
        Self::new(id.into(), base.into(), Some(Dialect::Anthropic))
    }

    /// An upstream for calls that are no known AI calls: gRPC methods, your own services. Its key travels as a
    /// bearer token. It belongs into [`Routes::any`](crate::Routes::any).
    pub fn plain(id: impl Into<String>, base: impl Into<String>) -> Self {
        Self::new(id.into(), base.into(), None)
    }

    fn new(id: String, base: String, dialect: Option<Dialect>) -> Self {
        Self {
            id,
            dialect,
            base: Secret(base),
            key: Key::None,
            named: None,
            weight: DEFAULT_WEIGHT,
            region: None,
            first_byte: None,
            provider: None,
            priced_as: None,
        }
    }

    /// The key that calls are sent with. Without one they carry no credentials; the caller's never travel.
    pub fn key(mut self, secret: impl Into<String>) -> Self {
        self.key = Key::Given(Secret(secret.into()));
        self
    }

    /// Takes the key from an environment variable, read once when the layer is built.
    pub fn key_from_env(mut self, name: impl Into<String>) -> Self {
        self.key = Key::FromEnv(name.into());
        self
    }

    /// This upstream's own name for the model. It must be the same model: nothing is ever substituted.
    pub fn named(mut self, model: impl Into<String>) -> Self {
        self.named = Some(model.into());
        self
    }

    /// Upstreams are tried in descending weight, those of equal weight in the order given. Default 100; at least 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Where it is, for records and response headers.
    pub fn region(mut self, region: impl Into<Arc<str>>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Its own limit for the first byte, in place of the watchdog's.
    pub fn first_byte(mut self, limit: Duration) -> Self {
        self.first_byte = Some(limit);
        self
    }

    /// The model's name in price tables, if it differs from the name that callers use.
    pub fn priced_as(mut self, model: impl Into<Arc<str>>) -> Self {
        self.priced_as = Some(model.into());
        self
    }

    /// Whose prices apply (`openai`, `anthropic`, `azure`); absent, the model's name decides.
    pub fn provider(mut self, provider: impl Into<Arc<str>>) -> Self {
        self.provider = Some(provider.into());
        self
    }

    pub(crate) fn has_own_model_name(&self) -> bool {
        self.named.is_some()
    }

    pub(crate) fn check(self) -> Result<Candidate, ConfigError> {
        Id::new(&self.id)
            .ok()
            .filter(|id| id.as_str().bytes().all(|byte| byte.is_ascii_graphic()))
            .ok_or_else(|| ConfigError::new("id", "an id is 1 to 256 visible ASCII characters"))?;
        if self.weight == 0 {
            let message =
                "the weight is zero: leave the upstream out, or give it 1 to make it the last reserve";
            return Err(ConfigError::new("weight", message));
        }
        if self.first_byte.is_some_and(|limit| limit.is_zero()) {
            return Err(ConfigError::new(
                "first_byte",
                "the limit is zero: no answer can be that fast",
            ));
        }
        let credentials = self.key.header(self.dialect)?;
        let (scheme, authority, prefix) = base(&self.base.0, self.dialect)?;
        Ok(Candidate {
            id: self.id.into(),
            dialect: self.dialect,
            scheme,
            authority,
            prefix,
            credentials,
            named: self.named,
            weight: self.weight,
            region: self.region,
            first_byte: self.first_byte,
            provider: self.provider,
            priced_as: self.priced_as,
        })
    }
}

impl Key {
    fn header(self, dialect: Option<Dialect>) -> Result<Option<HeaderValue>, ConfigError> {
        let secret = match self {
            Self::None => return Ok(None),
            Self::Given(Secret(secret)) => secret,
            Self::FromEnv(name) => env::var(&name).map_err(|_| {
                ConfigError::new("key", format!("the environment variable {name} is not set"))
            })?,
        };
        let value = match dialect {
            Some(Dialect::Anthropic) => secret,
            _ => format!("Bearer {secret}"),
        };
        let mut header = HeaderValue::try_from(value)
            .map_err(|_| ConfigError::new("key", "the key has characters that no header may have"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// Splits a base URL into what goes before an operation's own path. No error repeats any of it: the error's path tells
/// which it is, and its user name, password or query may be a key.
fn base(base: &str, dialect: Option<Dialect>) -> Result<(Scheme, Authority, String), ConfigError> {
    let wrong = |message: &str| ConfigError::new("base", message);
    let uri: Uri = base.parse().map_err(|error| wrong(&format!("no URL: {error}")))?;
    let parts = uri.into_parts();
    let scheme = parts
        .scheme
        .filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme))
        .ok_or_else(|| wrong("the URL has to start with http:// or https://"))?;
    let authority = parts
        .authority
        .filter(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
        .ok_or_else(|| wrong("the URL needs a host, and no user name or password"))?;
    let path = parts.path_and_query.as_ref();
    if path.and_then(|path| path.query()).is_some() {
        return Err(wrong("the URL has a query: the call's own is sent"));
    }
    let mut prefix = path
        .map_or("", |path| path.path())
        .trim_end_matches('/')
        .to_owned();
    // The Anthropic SDK's base ends before `/v1`, OpenAI's after it.
    if dialect == Some(Dialect::Anthropic) && !prefix.ends_with("/v1") {
        prefix.push_str("/v1");
    }
    Ok((scheme, authority, prefix))
}

/// An upstream whose configuration was found to work.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) id: Arc<str>,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// Path before the operation's own, without a slash at its end.
    pub(crate) prefix: String,
    /// The value of the dialect's credentials header. Marked sensitive: `Debug` does not print it.
    pub(crate) credentials: Option<HeaderValue>,
    pub(crate) named: Option<String>,
    pub(crate) weight: u32,
    pub(crate) region: Option<Arc<str>>,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) provider: Option<Arc<str>>,
    pub(crate) priced_as: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(upstream: Upstream) -> String {
        upstream.check().unwrap_err().to_string()
    }

    #[test]
    fn a_key_is_never_printed() {
        let upstream = Upstream::openai("a", "http://a/v1").key("sk-secret");
        assert!(!format!("{upstream:?}").contains("sk-secret"));
        let candidate = upstream.check().unwrap();
        assert!(!format!("{candidate:?}").contains("sk-secret"));
        assert_eq!(candidate.credentials.unwrap(), "Bearer sk-secret");
    }

    #[test]
    fn a_key_in_a_base_is_never_printed() {
        for base in [
            "https://a/v1?key=sk-secret",
            "https://sk-secret@a/v1",
            "https://user:sk-secret@a/v1",
            "ftp://user:sk-secret@a/v1",
            "a/v1?key=sk-secret",
            "https://user:sk-secret@a/v 1",
            "https://a b/v1?key=sk-secret",
        ] {
            let upstream = Upstream::openai("a", base);
            let shown = format!("{upstream:?}");
            let message = error(upstream);
            assert!(!shown.contains("sk-secret"), "{shown}");
            assert!(
                message.starts_with("base: ") && !message.contains("sk-secret"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_key_that_is_missing_from_the_environment_is_named() {
        let upstream = Upstream::openai("a", "http://a/v1").key_from_env("TOWER_AI_FAILOVER_NO_SUCH_KEY");
        let expected = "key: the environment variable TOWER_AI_FAILOVER_NO_SUCH_KEY is not set";
        assert_eq!(error(upstream), expected);
    }

    #[test]
    fn a_key_that_no_header_may_carry_is_refused_without_repeating_it() {
        let message = error(Upstream::anthropic("a", "http://a").key("sk\n1"));
        assert_eq!(message, "key: the key has characters that no header may have");
    }

    #[test]
    fn a_base_is_an_http_url_without_query_and_user() {
        for wrong in [
            "",
            "a b",
            "api.openai.com/v1",
            "ftp://a/v1",
            "http://u:p@a/v1",
            "http://a/v1?x=1",
            "/v1",
        ] {
            assert!(
                error(Upstream::openai("a", wrong)).starts_with("base: "),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_anthropic_base_may_end_in_v1_or_not() {
        for base in [
            "https://a.example",
            "https://a.example/",
            "https://a.example/v1",
            "https://a.example/v1/",
        ] {
            assert_eq!(
                Upstream::anthropic("a", base).check().unwrap().prefix,
                "/v1",
                "{base}"
            );
        }
        let nested = Upstream::anthropic("a", "https://a.example/anthropic")
            .check()
            .unwrap();
        assert_eq!(nested.prefix, "/anthropic/v1");
        assert_eq!(
            Upstream::openai("a", "https://a.example").check().unwrap().prefix,
            ""
        );
    }

    #[test]
    fn a_weight_or_limit_of_zero_is_an_error() {
        assert!(error(Upstream::openai("a", "http://a").weight(0)).starts_with("weight: "));
        assert!(
            error(Upstream::openai("a", "http://a").first_byte(Duration::ZERO)).starts_with("first_byte: ")
        );
    }

    #[test]
    fn an_id_fits_a_header_and_a_log_line() {
        for wrong in ["", "a b", "a\nb", "ä"] {
            assert!(
                error(Upstream::openai(wrong, "http://a")).starts_with("id: "),
                "{wrong:?}"
            );
        }
    }
}
