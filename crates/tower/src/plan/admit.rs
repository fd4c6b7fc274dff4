//! The question to the limiter, and what follows from its answer.

use std::sync::Arc;

use http::Request;
use tollgate::limiter::{Acquired, Ask, Select};
use tollgate::store::Intent;
use tollgate::{Decision, Error, Permit};

use super::{Charges, Kind, Plan};
use crate::answer::Cause;
use crate::head::Head;
use crate::visit::Visit;

/// What becomes of a request.
pub(crate) enum Admission {
    /// No limit applies.
    Free,
    /// It passes, and this is to be remembered until its response is there.
    Passes(Visit),
    Refused(Box<Cause>),
}

impl Plan {
    /// What becomes of a request, if that can be said on the spot.
    pub(crate) fn admit_at_once<B>(self: &Arc<Self>, request: &mut Request<B>) -> Option<Admission> {
        self.watch.sees();
        if !self.is_plain() || self.patience.is_some() || !self.look_up.is_empty() {
            return None;
        }
        let head = Head::of(request);
        let charges = match self.select(&head) {
            Ok(charges) => charges,
            Err(cause) => return Some(Admission::Refused(cause)),
        };
        let Some(charge) = charges.first() else { return Some(Admission::Free) };
        let began = self.began();
        let mut ask = self.limiter.check(&self.recipes[charge.recipe].limit, &charge.key).cost(charge.cost);
        if let Some(quota) = charge.quota {
            ask = ask.quota(quota);
        }
        let decided = ask.at_once().transpose()?;
        if let Ok(decision) = &decided {
            self.tell(&head, decision, began);
        }
        Some(self.conclude(request, charges, decided.map(|decision| (decision, None))))
    }

    /// What becomes of a request.
    pub(crate) async fn admit<B>(self: &Arc<Self>, request: &mut Request<B>) -> Admission {
        for look_up in &self.look_up {
            let finding = look_up(&Head::of(request));
            finding.await(request.extensions_mut());
        }
        let charges = match self.select(&Head::of(request)) {
            Ok(charges) if charges.is_empty() => return Admission::Free,
            Ok(charges) => charges,
            Err(cause) => return Admission::Refused(cause),
        };
        let began = self.began();
        let decided = self.decide(&charges).await;
        if let Ok((decision, _)) = &decided {
            self.tell(&Head::of(request), decision, began);
        }
        self.conclude(request, charges, decided)
    }

    async fn decide(&self, charges: &Charges) -> Result<(Decision, Option<Permit>), Error> {
        let takes_place = |kind: Kind, cost| kind == Kind::Place && cost > 0;
        let holds = charges.iter().any(|charge| takes_place(self.recipes[charge.recipe].kind, charge.cost));
        if let [charge] = charges.as_slice()
            && charge.quota.is_none()
        {
            let limit = &self.recipes[charge.recipe].limit;
            return self.answer(self.limiter.check(limit, &charge.key).cost(charge.cost), holds).await;
        }
        let mut ask = self.limiter.request(Intent::Spend);
        for charge in charges {
            ask = ask.and(&self.recipes[charge.recipe].limit, &charge.key).own_cost(charge.cost);
            if let Some(quota) = charge.quota {
                ask = ask.quota(quota);
            }
        }
        self.answer(ask, holds).await
    }

    async fn answer<'a, S: Select<'a>>(
        &self,
        ask: Ask<'a, S>,
        holds: bool,
    ) -> Result<(Decision, Option<Permit>), Error> {
        if !holds {
            let decision = match self.patience {
                Some(patience) => ask.wait_up_to(patience).await?,
                None => ask.in_turn().await?,
            };
            return Ok((decision, None));
        }
        let acquired = match self.patience {
            Some(patience) => ask.hold_up_to(patience).await?,
            None => ask.hold_in_turn().await?,
        };
        Ok(match acquired {
            Acquired::Held(permit) => (permit.decision().clone(), Some(permit)),
            Acquired::Denied(decision) => (decision, None),
        })
    }

    fn conclude<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        charges: Charges,
        decided: Result<(Decision, Option<Permit>), Error>,
    ) -> Admission {
        match decided {
            Ok((decision, permit)) if decision.is_allowed() => {
                self.watch.passes(self, request.extensions_mut());
                Admission::Passes(Visit::new(self, request, charges, decision, permit))
            }
            Ok((decision, _)) => Admission::Refused(Box::new(Cause::Limited(decision))),
            Err(error) => Admission::Refused(Box::new(Cause::Broken { what: error.to_string() })),
        }
    }
}
