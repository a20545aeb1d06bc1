//! Which upstreams a call may go to.

use crate::upstream::{Candidate, Upstream};
use std::{cmp::Reverse, collections::HashMap, sync::Arc};
use tower_ai_core::{ConfigError, Dialect};

/// Upstreams by model.
///
/// A call sees only upstreams of its own dialect, and nothing is ever translated or substituted. AI calls go to the
/// route of the model they name; all others, and AI calls for a model that no route names, to [`Routes::any`]. Where
/// neither fits, the answer is 404 `model_not_found` and nothing is sent.
///
/// ```
/// use tower_ai_failover::{Routes, Upstream};
///
/// let routes = Routes::new()
///     .model("gpt-5", [
///         Upstream::openai("openai", "https://api.openai.com/v1").key("sk-…"),
///         Upstream::openai("azure-eu", "https://eu.example/openai/v1").key("…").named("gpt5-eu").weight(60),
///     ])
///     .any([Upstream::openai("openai", "https://api.openai.com/v1").key("sk-…")]);
/// assert_eq!(routes.models().collect::<Vec<_>>(), ["gpt-5"]);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "routes do nothing until a layer is built from them"]
pub struct Routes {
    models: Vec<(String, Vec<Upstream>)>,
    any: Option<Vec<Upstream>>,
}

impl Routes {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where calls for this model go.
    pub fn model(mut self, name: impl Into<String>, upstreams: impl IntoIterator<Item = Upstream>) -> Self {
        self.models.push((name.into(), upstreams.into_iter().collect()));
        self
    }

    /// Where every other call goes: calls that are no AI calls, and calls for a model that no route names (its name
    /// goes through unchanged).
    pub fn any(mut self, upstreams: impl IntoIterator<Item = Upstream>) -> Self {
        self.any.get_or_insert_default().extend(upstreams);
        self
    }

    /// The models that have a route of their own, in the order given: what `GET /v1/models` lists.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn check(self) -> Result<Table, ConfigError> {
        if self.models.is_empty() && self.any.is_none() {
            return Err(ConfigError::new(
                "routes",
                "there are none: no call could be sent anywhere",
            ));
        }
        let mut models = HashMap::new();
        for (name, upstreams) in self.models {
            let path = format!("routes.{name}");
            if name.is_empty() {
                return Err(ConfigError::new("routes", "a model has no name"));
            }
            let route = Route::check(upstreams).map_err(|error| error.within(&path))?;
            if models.insert(name.into(), route).is_some() {
                return Err(ConfigError::new(path, "the model has two routes"));
            }
        }
        let any = self.any.map(
            |upstreams| match upstreams.iter().position(Upstream::has_own_model_name) {
                None => Route::check(upstreams),
                Some(at) => {
                    let message = "a route for any model cannot rename the model: that would substitute it";
                    Err(ConfigError::new(format!("upstreams[{at}].named"), message))
                }
            },
        );
        let any = any.transpose().map_err(|error| error.within("routes.any"))?;
        Ok(Table { models, any })
    }
}

/// Candidates in the order in which they are tried.
pub(crate) type Candidates = Arc<[Arc<Candidate>]>;

/// The routes, checked.
#[derive(Debug)]
pub(crate) struct Table {
    models: HashMap<Box<str>, Route>,
    any: Option<Route>,
}

impl Table {
    /// The candidates of an AI call, none if no route fits its model, or only routes of another dialect.
    pub(crate) fn for_model(&self, model: Option<&str>, dialect: Dialect) -> Option<Candidates> {
        let route = model
            .and_then(|model| self.models.get(model))
            .or(self.any.as_ref())?;
        let candidates = match dialect {
            Dialect::OpenAi => &route.openai,
            Dialect::Anthropic => &route.anthropic,
            _ => return None,
        };
        (!candidates.is_empty()).then(|| candidates.clone())
    }

    /// The candidates of a call that is no known AI call; with a dialect, as far as one can be told.
    pub(crate) fn for_any(&self, dialect: Option<Dialect>) -> Option<Candidates> {
        let route = self.any.as_ref()?;
        let candidates = match dialect {
            None => &route.all,
            Some(Dialect::OpenAi) => &route.openai_or_plain,
            Some(Dialect::Anthropic) => &route.anthropic_or_plain,
            Some(_) => return None,
        };
        (!candidates.is_empty()).then(|| candidates.clone())
    }

    pub(crate) fn has_model(&self, model: &str) -> bool {
        self.models.contains_key(model) || self.any.is_some()
    }
}

/// The candidates of one route, in the order in which they are tried, by who may see them.
#[derive(Debug)]
struct Route {
    all: Candidates,
    openai: Candidates,
    anthropic: Candidates,
    openai_or_plain: Candidates,
    anthropic_or_plain: Candidates,
}

impl Route {
    fn check(upstreams: Vec<Upstream>) -> Result<Self, ConfigError> {
        if upstreams.is_empty() {
            return Err(ConfigError::new("upstreams", "there are none"));
        }
        let mut all: Vec<Arc<Candidate>> = Vec::with_capacity(upstreams.len());
        for (at, upstream) in upstreams.into_iter().enumerate() {
            let path = format!("upstreams[{at}]");
            let candidate = upstream.check().map_err(|error| error.within(&path))?;
            if all.iter().any(|earlier| earlier.id == candidate.id) {
                let message = format!("\"{}\" is there twice", candidate.id);
                return Err(ConfigError::new(format!("{path}.id"), message));
            }
            all.push(Arc::new(candidate));
        }
        all.sort_by_key(|candidate| Reverse(candidate.weight)); // stable: ties keep the order given
        let of = |wanted: &[Option<Dialect>]| -> Candidates {
            let seen = all.iter().filter(|candidate| wanted.contains(&candidate.dialect));
            seen.cloned().collect()
        };
        Ok(Self {
            openai: of(&[Some(Dialect::OpenAi)]),
            anthropic: of(&[Some(Dialect::Anthropic)]),
            openai_or_plain: of(&[Some(Dialect::OpenAi), None]),
            anthropic_or_plain: of(&[Some(Dialect::Anthropic), None]),
            all: all.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openai(id: &str) -> Upstream {
        Upstream::openai(id, "http://a/v1")
    }

    fn ids(candidates: Option<Candidates>) -> Vec<String> {
        let candidates = candidates.expect("there are candidates");
        candidates
            .iter()
            .map(|candidate| candidate.id.to_string())
            .collect()
    }

    #[test]
    fn candidates_are_tried_in_descending_weight_and_ties_in_the_order_given() {
        let upstreams = [
            openai("b").weight(60),
            openai("c"),
            openai("a").weight(60),
            openai("d"),
        ];
        let table = Routes::new().model("m", upstreams).check().unwrap();
        assert_eq!(
            ids(table.for_model(Some("m"), Dialect::OpenAi)),
            ["c", "d", "b", "a"]
        );
    }

    #[test]
    fn a_call_sees_only_candidates_of_its_own_dialect() {
        let upstreams = [openai("o"), Upstream::anthropic("a", "http://a")];
        let table = Routes::new().model("m", upstreams).check().unwrap();
        assert_eq!(ids(table.for_model(Some("m"), Dialect::Anthropic)), ["a"]);
        let table = Routes::new().model("m", [openai("o")]).check().unwrap();
        assert!(table.for_model(Some("m"), Dialect::Anthropic).is_none());
    }

    #[test]
    fn a_model_without_a_route_goes_to_any() {
        let table = Routes::new()
            .model("m", [openai("m")])
            .any([openai("any")])
            .check()
            .unwrap();
        assert_eq!(ids(table.for_model(Some("other"), Dialect::OpenAi)), ["any"]);
        assert_eq!(ids(table.for_model(None, Dialect::OpenAi)), ["any"]);
        let table = Routes::new().model("m", [openai("m")]).check().unwrap();
        assert!(table.for_model(Some("other"), Dialect::OpenAi).is_none());
        assert!(table.for_any(None).is_none());
    }

    #[test]
    fn calls_that_are_no_ai_calls_also_see_plain_upstreams() {
        let upstreams = [
            openai("o"),
            Upstream::anthropic("a", "http://a"),
            Upstream::plain("p", "http://p"),
        ];
        let table = Routes::new().any(upstreams).check().unwrap();
        assert_eq!(ids(table.for_any(None)), ["o", "a", "p"]);
        assert_eq!(ids(table.for_any(Some(Dialect::OpenAi))), ["o", "p"]);
        assert_eq!(ids(table.for_model(None, Dialect::OpenAi)), ["o"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        let cases = [
            (
                Routes::new(),
                "routes: there are none: no call could be sent anywhere",
            ),
            (
                Routes::new().model("gpt-5", []),
                "routes.gpt-5.upstreams: there are none",
            ),
            (
                Routes::new().model("gpt-5", [openai("a"), openai("a")]),
                "routes.gpt-5.upstreams[1].id: \"a\" is there twice",
            ),
            (
                Routes::new().model(
                    "gpt-5",
                    [openai("a"), openai("b").key_from_env("NO_SUCH_VARIABLE_9")],
                ),
                "routes.gpt-5.upstreams[1].key: the environment variable NO_SUCH_VARIABLE_9 is not set",
            ),
            (
                Routes::new().model("m", [openai("a")]).model("m", [openai("b")]),
                "routes.m: the model has two routes",
            ),
            (
                Routes::new().any([openai("a"), openai("b").named("x")]),
                "routes.any.upstreams[1].named: a route for any model cannot rename the model: that would substitute it",
            ),
        ];
        for (routes, expected) in cases {
            assert_eq!(routes.check().unwrap_err().to_string(), expected);
        }
    }
}
