//! What `gateway.toml` can say, and what is checked before anything starts.

use serde::{Deserialize, Deserializer, de};
use std::{collections::BTreeMap, path::Path};
use tower_ai_core::{Caller, ConfigError, Dialect, NanoUsd, usd};

/// The whole file. Every field that is not known is an error with its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Who may call.
    pub keys: Vec<Key>,
    /// Where calls can go, the first by weight.
    pub upstreams: Vec<Upstream>,
    /// How often callers may call.
    pub limits: Limits,
    /// What callers may spend.
    pub budgets: Budgets,
    /// Prices by model, where the bundled ones do not know it or are not yours.
    pub prices: BTreeMap<String, Price>,
}

/// An API key of a caller. Two callers of one tenant share its limits and its budget.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The key itself.
    pub key: Option<String>,
    /// Or the environment variable that holds it.
    pub key_env: Option<String>,
    /// The account that pays and is limited.
    pub tenant: String,
    /// A person within the tenant.
    pub user: Option<String>,
    /// The plan by name; without one, the fallback plan.
    pub plan: Option<String>,
}

/// One place that serves models.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Its name in logs, traces and `x-served-by`.
    pub id: String,
    /// What it speaks; only calls in the same dialect go there.
    #[serde(default)]
    pub dialect: Speaks,
    /// What an SDK would be given as `base_url`, `/v1` included for both dialects.
    pub base_url: String,
    /// Our key there.
    pub key: Option<String>,
    /// Or the environment variable that holds it.
    pub key_env: Option<String>,
    /// The highest is tried first.
    #[serde(default = "weight")]
    pub weight: u32,
    /// Where it is.
    pub region: Option<String>,
    /// How long it may take to its first byte, in milliseconds, if it is slower than the watchdog's 50 ms allow.
    pub first_byte_ms: Option<u64>,
    /// The models it serves. None named: every model that no other upstream names.
    #[serde(default)]
    pub models: Vec<String>,
    /// What it calls them, where that differs.
    #[serde(default)]
    pub named: BTreeMap<String, String>,
}

/// The dialect of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaks {
    /// OpenAI and the compatible crowd.
    #[default]
    Openai,
    /// Anthropic.
    Anthropic,
}

impl From<Speaks> for Dialect {
    fn from(speaks: Speaks) -> Self {
        match speaks {
            Speaks::Openai => Self::OpenAi,
            Speaks::Anthropic => Self::Anthropic,
        }
    }
}

/// Limits per tenant, by plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Off: nobody is limited.
    pub enabled: bool,
    /// The plan of callers without one.
    pub fallback: String,
    /// The plans.
    pub plans: BTreeMap<String, PlanLimits>,
}

/// A token bucket of requests, and one of tokens if it is given.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanLimits {
    /// Requests that may come at once.
    pub burst: u64,
    /// Requests that come back …
    pub refill: u64,
    /// … in this many seconds.
    #[serde(default = "one")]
    pub per_seconds: u32,
    /// Tokens per minute, all of which may come at once.
    pub tokens_per_minute: Option<u64>,
}

/// Budgets per tenant, by plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budgets {
    /// Off: nobody is refused, and nothing is counted.
    pub enabled: bool,
    /// The plan of callers without one.
    pub fallback: String,
    /// The plans.
    pub plans: BTreeMap<String, PlanBudget>,
}

/// Money per calendar day. Amounts are texts, since a TOML float is no exact amount.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanBudget {
    /// US dollars a day.
    #[serde(deserialize_with = "dollars")]
    pub daily_usd: NanoUsd,
    /// The most that one request may cost.
    #[serde(default = "request_cap", deserialize_with = "dollars")]
    pub request_cap_usd: NanoUsd,
    /// At which part of the budget to alert.
    #[serde(default = "alert_at")]
    pub alert_at_percent: u8,
    /// Whose midnight ends the day.
    #[serde(default = "utc")]
    pub zone: String,
}

/// A price in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// For what is sent.
    #[serde(deserialize_with = "dollars")]
    pub input_usd_per_million: NanoUsd,
    /// For what is answered.
    #[serde(deserialize_with = "dollars")]
    pub output_usd_per_million: NanoUsd,
}

/// The reference plans. Figures marked "ours" are not promised anywhere; set your own.
impl Default for Limits {
    fn default() -> Self {
        let plans = [
            ("free", 20, 2),
            ("starter", 100, 10),
            ("pro", 200, 20), // ours
            ("growth", 500, 50),
            ("enterprise", 2_000, 200),
        ];
        let plan = |(name, burst, refill)| {
            let limits = PlanLimits {
                burst,
                refill,
                per_seconds: 1,
                tokens_per_minute: None,
            };
            (String::from(name), limits)
        };
        Self {
            enabled: true,
            fallback: "free".into(),
            plans: plans.map(plan).into(),
        }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        let plans = [
            ("free", usd!(2)),
            ("starter", usd!(10)), // ours
            ("pro", usd!(20)),
            ("growth", usd!(50)),      // ours
            ("enterprise", usd!(500)), // ours
        ];
        let plan = |(name, daily_usd)| {
            let budget = PlanBudget {
                daily_usd,
                request_cap_usd: request_cap(),
                alert_at_percent: alert_at(),
                zone: utc(),
            };
            (String::from(name), budget)
        };
        Self {
            enabled: true,
            fallback: "free".into(),
            plans: plans.map(plan).into(),
        }
    }
}

fn one() -> u32 {
    1
}

fn weight() -> u32 {
    100
}

fn request_cap() -> NanoUsd {
    usd!(0.80)
}

fn alert_at() -> u8 {
    80
}

fn utc() -> String {
    "UTC".into()
}

fn dollars<'de, D: Deserializer<'de>>(text: D) -> Result<NanoUsd, D::Error> {
    String::deserialize(text)?.parse().map_err(de::Error::custom)
}

impl Config {
    /// Reads a file. The error tells where in the file it is wrong.
    ///
    /// # Errors
    /// The file cannot be read, is not what [`Config`] describes, or fails [`Config::check`].
    pub fn read(path: &Path) -> Result<Self, String> {
        let located = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| located(&error))?;
        Self::parse(&text).map_err(|error| located(&error))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| without_secrets(text, &error))?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    /// What the layers cannot see when they are built, because it concerns two of them.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the field.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.upstreams.is_empty() {
            return Err(ConfigError::new("upstreams", "name at least one"));
        }
        if self.limits.enabled && self.budgets.enabled {
            same_plans(&self.limits.plans, "limits", &self.budgets.plans, "budgets")?;
            same_plans(&self.budgets.plans, "budgets", &self.limits.plans, "limits")?;
        }
        for (at, upstream) in self.upstreams.iter().enumerate() {
            if let Some(model) = upstream
                .named
                .keys()
                .find(|model| !upstream.models.contains(model))
            {
                let message = format!("{model:?} is not among its models");
                return Err(ConfigError::new(format!("upstreams[{at}].named"), message));
            }
        }
        for (at, key) in self.keys.iter().enumerate() {
            self.check_plan(key)
                .map_err(|error| error.within(&format!("keys[{at}]")))?;
        }
        Ok(())
    }

    /// A misspelt plan would get the fallback, silently.
    fn check_plan(&self, key: &Key) -> Result<(), ConfigError> {
        key.caller()?;
        let Some(plan) = &key.plan else { return Ok(()) };
        let known = (!self.limits.enabled || self.limits.plans.contains_key(plan))
            && (!self.budgets.enabled || self.budgets.plans.contains_key(plan));
        match known {
            true => Ok(()),
            false => Err(ConfigError::new("plan", format!("there is no plan {plan:?}"))),
        }
    }
}

fn same_plans<A, B>(
    these: &BTreeMap<String, A>,
    here: &str,
    those: &BTreeMap<String, B>,
    there: &str,
) -> Result<(), ConfigError> {
    match these.keys().find(|plan| !those.contains_key(*plan)) {
        None => Ok(()),
        Some(plan) => {
            let message = format!("{here} know the plan {plan:?}, {there} do not");
            Err(ConfigError::new(format!("{there}.plans"), message))
        }
    }
}

impl Key {
    /// The caller that it lets in.
    ///
    /// # Errors
    /// A name that is empty, too long or has control characters.
    pub fn caller(&self) -> Result<Caller, ConfigError> {
        let invalid =
            |field| move |error: tower_ai_core::InvalidId| ConfigError::new(field, error.to_string());
        let mut caller = Caller::new(&self.tenant).map_err(invalid("tenant"))?;
        if let Some(user) = &self.user {
            caller = caller.user(user).map_err(invalid("user"))?;
        }
        if let Some(plan) = &self.plan {
            caller = caller.plan(plan).map_err(invalid("plan"))?;
        }
        Ok(caller)
    }

    /// The key's text.
    ///
    /// # Errors
    /// Neither `key` nor `key_env` is given, or the variable is not set.
    pub fn secret(&self) -> Result<String, ConfigError> {
        let (field, secret) = match (&self.key, &self.key_env) {
            (Some(key), None) => ("key", key.clone()),
            (None, Some(name)) => match std::env::var(name) {
                Ok(key) => ("key_env", key),
                Err(_) => {
                    let message = format!("the environment variable {name} is not set to a text");
                    return Err(ConfigError::new("key_env", message));
                }
            },
            _ => return Err(ConfigError::new("key", "give either `key` or `key_env`")),
        };
        if secret.trim().is_empty() {
            return Err(ConfigError::new(field, "the key is empty"));
        }
        Ok(secret)
    }
}

/// Where the file is wrong, and how. `toml` would print the whole line, with any key in it, and texts of the wrong type.
fn without_secrets(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .and_then(|span| text.get(..span.start))
        .map_or(1, |before| before.split('\n').count());
    let message = error.message();
    let message = match message.split_once("string \"") {
        Some((before, value)) => {
            let after = value.rsplit_once('"').map_or("", |(_, after)| after);
            format!("{before}text{after}")
        }
        None => message.to_owned(),
    };
    format!("line {line}: {message}")
}

/// Without the secrets.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("tenant", &self.tenant)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// Without the secrets.
impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPSTREAM: &str = "[[upstreams]]\nid = 'one'\nbase_url = 'http://127.0.0.1:1/v1'\n";

    fn error(rest: &str) -> String {
        Config::parse(&format!("{UPSTREAM}{rest}")).unwrap_err()
    }

    #[test]
    fn one_upstream_is_enough() {
        let config = Config::parse(UPSTREAM).unwrap();
        assert_eq!(config.limits.plans["growth"].burst, 500);
        assert_eq!(config.budgets.plans["free"].daily_usd, usd!(2));
    }

    #[test]
    fn the_checked_in_file_is_valid() {
        Config::parse(include_str!("../gateway.toml")).unwrap();
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_name() {
        assert!(error("wieght = 3").contains("unknown field `wieght`"));
        assert!(error("[limit]").contains("unknown field `limit`"));
        assert!(error("[budgets.plans.free]\ndaily_usd = '1'\ndayly = 1").contains("unknown field `dayly`"));
    }

    #[test]
    fn an_error_names_the_line_and_never_repeats_a_secret() {
        let wrong_name = error("[[keys]]\nkey = 'sk-very-secret'\ntenat = 'acme'");
        assert!(
            wrong_name.contains("line 6") && wrong_name.contains("tenat"),
            "{wrong_name}"
        );
        let wrong_name_inline = error("[[keys]]\ntenant = 'a'\nkey = 'sk-very-secret'\n[limits]\nx = 1");
        let wrong_type = error("[budgets]\nplans = 'sk-very-secret \"quoted\" text'");
        for error in [wrong_name, wrong_name_inline, wrong_type] {
            assert!(!error.contains("secret") && !error.contains("quoted"), "{error}");
        }
        let inline = Config::parse("keys = [{ key = 'sk-very-secret', tenat = 'acme' }]").unwrap_err();
        assert!(
            inline.contains("line 1") && !inline.contains("secret"),
            "{inline}"
        );
    }

    #[test]
    fn a_key_without_text_lets_nobody_in() {
        let config = Config::parse(&format!("{UPSTREAM}[[keys]]\nkey = ' '\ntenant = 'acme'")).unwrap();
        let error = crate::auth::Keys::of(&config).unwrap_err();
        assert_eq!(error.to_string(), "keys[0].key: the key is empty");
    }

    #[test]
    fn a_plan_that_only_one_layer_knows_is_refused() {
        assert_eq!(
            error("[limits.plans]\nfree = { burst = 20, refill = 2 }"),
            "limits.plans: budgets know the plan \"enterprise\", limits do not"
        );
        let vip =
            "[limits.plans]\nvip = { burst = 20, refill = 2 }\n[budgets.plans]\nVIP = { daily_usd = '1' }";
        assert_eq!(
            error(vip),
            "budgets.plans: limits know the plan \"vip\", budgets do not"
        );
    }

    #[test]
    fn a_layer_that_is_off_needs_no_plans() {
        let off = "[limits]\nenabled = false\n[budgets.plans]\nfree = { daily_usd = '1' }";
        Config::parse(&format!("{UPSTREAM}{off}")).unwrap();
    }

    #[test]
    fn a_key_with_a_misspelt_plan_or_a_line_break_is_refused() {
        assert_eq!(
            error("[[keys]]\nkey = 'k'\ntenant = 'acme'\nplan = 'growht'"),
            "keys[0].plan: there is no plan \"growht\""
        );
        assert!(error("[[keys]]\nkey = 'k'\ntenant = \"a\\nb\"").starts_with("keys[0].tenant: "));
    }

    #[test]
    fn a_name_for_a_model_that_is_not_served_is_refused() {
        let error = error("models = ['gpt-5']\nnamed = { 'gpt5' = 'eu' }");
        assert_eq!(error, "upstreams[0].named: \"gpt5\" is not among its models");
    }

    #[test]
    fn an_amount_is_a_text_and_exact() {
        assert!(error("[budgets.plans]\nfree = { daily_usd = 2.0 }").contains("expected a string"));
        assert!(error("[budgets.plans]\nfree = { daily_usd = '-2' }").contains("not an amount of dollars"));
    }

    #[test]
    fn no_secret_is_printed() {
        let text = format!("{UPSTREAM}key = 's3cret'\n[[keys]]\nkey = 's3cret'\ntenant = 'acme'");
        assert!(!format!("{:?}", Config::parse(&text).unwrap()).contains("s3cret"));
    }
}
