//! Plans by name, and errors that say where a configuration is wrong.

use crate::Caller;
use std::fmt;

/// What applies to callers by the name of their plan.
///
/// A plan that is missing or not listed gets the fallback plan. A single `T` converts into `Plans` of that one.
///
/// ```
/// use tower_ai_core::{Caller, Plans};
///
/// let bursts = Plans::fallback("free").plan("free", 20).plan("growth", 500);
/// assert!(bursts.check().is_ok());
/// let caller = Caller::new("acme").unwrap().plan("platinum").unwrap();
/// assert_eq!(bursts.of(Some(&caller)), Some(("free", &20)));
/// ```
#[derive(Clone, Debug)]
pub struct Plans<T> {
    fallback: String,
    plans: Vec<(String, T)>,
}

impl<T> Plans<T> {
    /// No plans yet; `name` is the one that callers without a known plan get.
    pub fn fallback(name: impl Into<String>) -> Self {
        Self {
            fallback: name.into(),
            plans: Vec::new(),
        }
    }

    /// Adds a plan.
    pub fn plan(mut self, name: impl Into<String>, value: T) -> Self {
        self.plans.push((name.into(), value));
        self
    }

    /// The plan of a caller, by name, or the fallback. `None` only if [`Plans::check`] fails.
    pub fn of(&self, caller: Option<&Caller>) -> Option<(&str, &T)> {
        caller
            .and_then(Caller::plan_name)
            .and_then(|name| self.get(name))
            .or_else(|| self.get(&self.fallback))
    }

    /// A plan by name.
    pub fn get(&self, name: &str) -> Option<(&str, &T)> {
        self.plans
            .iter()
            .find(|(known, _)| known == name)
            .map(|(name, value)| (name.as_str(), value))
    }

    /// All plans.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.plans.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Turns each value into another; the error gets the plan's name as its path.
    ///
    /// # Errors
    /// The first that `build` returns, or that of [`Plans::check`].
    pub fn try_map<U>(
        self,
        mut build: impl FnMut(&str, T) -> Result<U, ConfigError>,
    ) -> Result<Plans<U>, ConfigError> {
        self.check()?;
        let single = self.plans.len() == 1 && self.fallback.is_empty();
        let plans = self
            .plans
            .into_iter()
            .map(|(name, value)| match build(&name, value) {
                Ok(built) => Ok((name, built)),
                Err(error) if single => Err(error),
                Err(error) => Err(error.within(&format!("plans.{name}"))),
            })
            .collect::<Result<_, _>>()?;
        Ok(Plans {
            fallback: self.fallback,
            plans,
        })
    }

    /// Whether the fallback exists and every name is there once.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of the plan.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (at, (name, _)) in self.plans.iter().enumerate() {
            if self.plans[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(ConfigError::new(
                    format!("plans.{name}"),
                    "the plan is defined twice",
                ));
            }
        }
        if self.get(&self.fallback).is_none() {
            let message = format!("the fallback plan \"{}\" is not defined", self.fallback);
            return Err(ConfigError::new("plans", message));
        }
        Ok(())
    }
}

/// One value for every caller: a single plan without a name.
impl<T> From<T> for Plans<T> {
    fn from(value: T) -> Self {
        Self {
            fallback: String::new(),
            plans: vec![(String::new(), value)],
        }
    }
}

/// A configuration that cannot work, found when a layer is built: `plans.free.tpm: window is zero`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    path: String,
    message: String,
}

impl ConfigError {
    /// The field at `path` is wrong; `message` says how to mend it.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// The same error, seen from one level further out.
    pub fn within(mut self, outer: &str) -> Self {
        self.path = if self.path.is_empty() {
            outer.to_owned()
        } else {
            format!("{outer}.{}", self.path)
        };
        self
    }

    /// The path of the field.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fallback_that_is_not_defined_is_an_error_at_build_time() {
        let error = Plans::fallback("free").plan("pro", 1).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "plans: the fallback plan \"free\" is not defined"
        );
    }

    #[test]
    fn a_plan_defined_twice_is_an_error() {
        let error = Plans::fallback("free")
            .plan("free", 1)
            .plan("free", 2)
            .check()
            .unwrap_err();
        assert_eq!(error.to_string(), "plans.free: the plan is defined twice");
    }

    #[test]
    fn an_error_names_the_whole_path() {
        let built = Plans::fallback("free").plan("free", 0).try_map(|_, value: i32| {
            if value > 0 {
                Ok(value)
            } else {
                Err(ConfigError::new("tpm", "window is zero"))
            }
        });
        assert_eq!(built.unwrap_err().to_string(), "plans.free.tpm: window is zero");
    }
}
