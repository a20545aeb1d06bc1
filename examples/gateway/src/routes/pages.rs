//! The pages around the governed calls.

use crate::config::Config;
use bytes::Bytes;
use http::{HeaderValue, Response, header::CONTENT_TYPE};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tower_ai_budget::{Amount, Balance, BudgetLayer, MemoryLedger};
use tower_ai_core::{Caller, Dialect, LayerKind, Refusable, Refusal, RefusalFormat, RefusalKind};

/// A remote ledger that does not answer is asked again after this time.
const RETRY_LEDGER: Duration = Duration::from_secs(1);

/// The models that have a route of their own, with the dialects in which they are served.
#[derive(Clone, Debug)]
pub struct Models(BTreeMap<String, Vec<Dialect>>);

impl Models {
    /// Those of the configured upstreams.
    pub fn of(config: &Config) -> Self {
        let mut models: BTreeMap<String, Vec<Dialect>> = BTreeMap::new();
        for upstream in &config.upstreams {
            for model in &upstream.models {
                models
                    .entry(model.clone())
                    .or_default()
                    .push(upstream.dialect.into());
            }
        }
        Self(models)
    }

    /// `GET /v1/models` in the shape of the caller's dialect, with the models that it can be asked for in that dialect.
    pub(super) fn page<R>(&self, dialect: Option<Dialect>) -> Response<Refusable<R>> {
        let dialect = dialect.unwrap_or(Dialect::OpenAi);
        let served = self.0.iter().filter(|(_, dialects)| dialects.contains(&dialect));
        let names = served.map(|(name, _)| name);
        let page = match dialect {
            Dialect::Anthropic => {
                let model = |name| json!({ "type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z" });
                let models: Vec<Value> = names.map(model).collect();
                let id = |model: Option<&Value>| model.map_or(Value::Null, |model| model["id"].clone());
                let (first, last) = (id(models.first()), id(models.last()));
                json!({ "data": models, "has_more": false, "first_id": first, "last_id": last })
            }
            _ => {
                let model =
                    |name| json!({ "id": name, "object": "model", "created": 0, "owned_by": "gateway" });
                json!({ "object": "list", "data": names.map(model).collect::<Vec<_>>() })
            }
        };
        json_page(page.to_string())
    }
}

/// What callers spent. `None`: there are no budgets, and nothing is counted.
#[derive(Clone, Debug)]
pub struct Usage(pub Option<BudgetLayer<MemoryLedger>>);

impl Usage {
    /// `GET /v1/usage`: the caller's plan and, by its tenant's account, what is spent, reserved, allowed, and when the
    /// day ends.
    pub(super) async fn page<R>(&self, caller: &Caller, format: RefusalFormat) -> Response<Refusable<R>> {
        let Some(budgets) = &self.0 else {
            return json_page(usage_json(caller, caller.plan_name(), None));
        };
        match budgets.balance(Some(caller)).await {
            Ok(balance) => json_page(usage_json(caller, budgets.plan(Some(caller)), Some(&balance))),
            Err(_) => {
                let (kind, message) = (
                    RefusalKind::Unavailable,
                    "what was spent cannot be read at the moment",
                );
                let refusal = Refusal::new(LayerKind::Host, kind, "ledger_unavailable", message);
                refusal.retry_after(RETRY_LEDGER).into_response(format)
            }
        }
    }
}

/// Amounts are exact decimals of cents, as in refusals: printed from integers, which `serde_json` could only do by way of
/// a float.
fn usage_json(caller: &Caller, plan: Option<&str>, balance: Option<&Balance>) -> String {
    let cents = |amount: fn(&Balance) -> Amount| {
        let amount = balance.and_then(|balance| amount(balance).as_usd());
        amount.map_or("null".to_owned(), |amount| amount.cents().to_string())
    };
    format!(
        r#"{{"tenant":{},"plan":{},"spent_cents":{},"reserved_cents":{},"limit_cents":{},"reset_after":{}}}"#,
        Value::from(caller.tenant.as_str()),
        Value::from(plan),
        cents(|balance| balance.spent),
        cents(|balance| balance.reserved),
        cents(|balance| balance.limit),
        balance.map_or("null".to_owned(), |balance| balance
            .reset_after
            .as_millis()
            .div_ceil(1000)
            .to_string()),
    )
}

/// `GET /healthz`: the process answers. It says nothing about upstreams: a bad day of theirs is no reason to restart us.
pub(super) fn health<R>() -> Response<Refusable<R>> {
    json_page(r#"{"status":"ok"}"#.to_owned())
}

fn json_page<R>(body: String) -> Response<Refusable<R>> {
    let mut response = Response::new(Refusable::refusal(Bytes::from(body)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
