//! The question to the limiter, and what follows from its answer.

use std::sync::Arc;

use http::Request;
use smallvec::smallvec;
use tollgate::limiter::{Acquired, Ask, Select};
use tollgate::store::Intent;
use tollgate::{Decision, Error, Permit};

use super::{Charges, Kind, Plan, Recipe};
use crate::answer::{Cause, fields};
use crate::head::Head;
use crate::visit::{Later, Visit};

/// What becomes of a request.
pub(crate) enum Admission {
    /// It passes, and this is to be remembered until its response is there; nothing where no limit applies, or where the
    /// limits have nothing to say then.
    Passes(Option<Box<Visit>>),
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
        let charge = match self.select_only(&head) {
            Ok(Some(charge)) => charge,
            Ok(None) => return Some(Admission::Passes(None)),
            Err(cause) => return Some(Admission::Refused(cause)),
        };
        let began = self.began();
        let mut ask = self.limiter.check(&self.recipes[charge.recipe].limit, &charge.key).cost(charge.cost);
        if let Some(quota) = charge.quota {
            ask = ask.quota(quota);
        }
        let decision = match ask.at_once() {
            Ok(decision) => decision?,
            Err(error) => return Some(Admission::Refused(broken(&error))),
        };
        self.tell(&head, &decision, began);
        Some(self.conclude(request, || smallvec![charge], decision, None))
    }

    /// What becomes of a request.
    pub(crate) async fn admit<B>(self: &Arc<Self>, request: &mut Request<B>) -> Admission {
        for look_up in &self.look_up {
            let finding = look_up(&Head::of(request));
            finding.await(request.extensions_mut());
        }
        let charges = match self.select(&Head::of(request)) {
            Ok(charges) if charges.is_empty() => return Admission::Passes(None),
            Ok(charges) => charges,
            Err(cause) => return Admission::Refused(cause),
        };
        let began = self.began();
        match self.decide(&charges).await {
            Ok((decision, permit)) => {
                self.tell(&Head::of(request), &decision, began);
                self.conclude(request, || charges, decision, permit)
            }
            Err(error) => Admission::Refused(broken(&error)),
        }
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

    #[inline]
    fn conclude<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        charges: impl FnOnce() -> Charges,
        decision: Decision,
        permit: Option<Permit>,
    ) -> Admission {
        if !decision.is_allowed() {
            return Admission::Refused(Box::new(Cause::Limited(decision)));
        }
        self.watch.passes(self, request.extensions_mut());
        let looks_back = permit.is_some() || self.recipes.iter().any(Recipe::looks_back);
        if !looks_back && !fields::tells(&decision, self.fields) {
            return Admission::Passes(None);
        }
        let later = looks_back.then(|| Box::new(Later::new(self, request, charges(), &decision, permit)));
        Admission::Passes(Some(Box::new(Visit::new(self, decision, later))))
    }
}

#[cold]
fn broken(error: &Error) -> Box<Cause> {
    Box::new(Cause::Broken { what: error.to_string() })
}
