//! What a ledger's reply means for a call.

use crate::{
    Balance, Ledger, Outage, Reserved, Statement, observe,
    policy::{Ask, Rules},
    refusal,
    reservation::Reservation,
};
use std::sync::Arc;
use tower_ai_core::{BudgetState, Call, Refusal, RefusalFormat};

/// A call that waits for the ledger's reply.
pub(crate) struct Pending<L: Ledger> {
    pub(crate) ledger: L,
    pub(crate) rules: Arc<Rules>,
    pub(crate) call: Call,
    pub(crate) ask: Ask,
    pub(crate) format: RefusalFormat,
}

/// A call that goes on.
pub(crate) struct Admitted<L: Ledger> {
    /// `None` when the ledger is away and the rule is to pass.
    pub(crate) reservation: Option<Reservation<L>>,
    pub(crate) state: Option<BudgetState>,
}

/// A call that does not.
pub(crate) struct Refused {
    pub(crate) refusal: Box<Refusal>,
    pub(crate) format: RefusalFormat,
    pub(crate) state: Option<BudgetState>,
}

impl Refused {
    pub(crate) fn new(refusal: Box<Refusal>, format: RefusalFormat) -> Self {
        Self {
            refusal,
            format,
            state: None,
        }
    }
}

impl<L: Ledger> Pending<L> {
    pub(crate) fn decide(self, reserved: Reserved) -> Result<Admitted<L>, Refused> {
        let Self {
            ledger,
            rules,
            call,
            ask,
            format,
        } = self;
        match reserved {
            Reserved::Admitted { receipt, statement } => {
                let reservation = Some(Reservation::new(ledger, receipt, call, rules.clone()));
                let state = tell(&rules, statement, 0);
                Ok(Admitted {
                    reservation,
                    state: state.as_ref().and_then(budget_state),
                })
            }
            Reserved::Refused { over, statement } => {
                let balance = tell(&rules, statement, over);
                let refusal = match &balance {
                    Some(balance) => refuse(&rules, &ask, balance),
                    None => refusal::unavailable(),
                };
                Err(Refused {
                    refusal,
                    format,
                    state: balance.as_ref().and_then(budget_state),
                })
            }
            Reserved::Unavailable(reason) => {
                observe::unavailable(&reason, rules.outage);
                match rules.outage {
                    Outage::Open => Ok(Admitted {
                        reservation: None,
                        state: None,
                    }),
                    Outage::Closed => Err(Refused::new(refusal::unavailable(), format)),
                }
            }
        }
    }
}

/// Raises the alerts, before anything is answered, and picks a balance.
fn tell(rules: &Rules, statement: Statement, at: usize) -> Option<Balance> {
    for alert in statement.alerts {
        rules.alarm.raise(alert);
    }
    statement.balances.into_iter().nth(at)
}

fn refuse(rules: &Rules, ask: &Ask, balance: &Balance) -> Box<Refusal> {
    refusal::exhausted(
        ask.amount,
        balance,
        ask.claim.window.period(),
        rules.exhausted_status(),
    )
}

/// What [`BudgetState`] can tell: it is in dollars.
fn budget_state(balance: &Balance) -> Option<BudgetState> {
    Some(BudgetState::new(
        balance.limit.as_usd()?,
        balance.spent.as_usd()?,
        balance.reserved.as_usd()?,
        balance.reset_after,
    ))
}
