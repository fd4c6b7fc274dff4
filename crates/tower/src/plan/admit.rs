//! The question to the limiter, and what follows from its answer.

use std::sync::Arc;

use http::Request;
use smallvec::smallvec;
use tollgate::limiter::{Acquisition, Check, Demands};
use tollgate::store::Intent;
use tollgate::{Decision, Error, Permit};

use super::{Charge, Charges, Kind, Plan, Recipe};
use crate::answer::{Cause, fields};
use crate::head::Head;
use crate::visit::{Later, Visit};

/// What becomes of a request.
pub(crate) enum Admission {
    /// It passes, and this is to be remembered until its response is there; nothing where no limit
    /// applies, or where the limits have nothing to say then.
    Passes(Option<Box<Visit>>),
    Refused(Box<Cause>),
}

/// What can be said of a request on the spot.
pub(crate) enum AtOnce {
    /// Everything.
    Known(Admission),
    /// What its only limit asks of it, if that is known already.
    Open(Option<Charge>),
}

impl Plan {
    /// What becomes of a request, as far as that can be said on the spot.
    pub(crate) fn admit_at_once<B>(self: &Arc<Self>, request: &mut Request<B>) -> AtOnce {
        self.watch.sees();
        if !self.is_plain() {
            return AtOnce::Open(None);
        }
        let head = Head::of(request);
        let charge = match self.select_only(&head) {
            Ok(Some(charge)) => charge,
            Ok(None) => return AtOnce::Known(Admission::Passes(None)),
            Err(cause) => return AtOnce::Known(Admission::Refused(cause)),
        };
        let began = self.began();
        let mut ask = self
            .limiter
            .check(&self.recipes[charge.recipe].limit, &charge.key)
            .cost(charge.cost);
        if let Some(quota) = &charge.quota {
            ask = ask.quota(**quota);
        }
        let decision = match ask.try_now() {
            Ok(Some(decision)) => decision,
            Ok(None) => return AtOnce::Open(Some(charge)),
            Err(error) => return AtOnce::Known(Admission::Refused(broken(&error))),
        };
        self.tell(&head, &decision, began);
        AtOnce::Known(self.conclude(request, || smallvec![charge], decision, None))
    }

    /// What becomes of a request, of which it is known what its only limit asks of it, or nothing
    /// yet.
    pub(crate) async fn admit<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        charge: Option<Charge>,
    ) -> Admission {
        let selected = if let Some(charge) = charge {
            Ok(smallvec![charge])
        } else {
            self.find_out(request).await;
            self.select(&Head::of(request))
        };
        let charges = match selected {
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

    /// True when requests are answered on the spot, if the store can.
    fn is_plain(&self) -> bool {
        let is_units = matches!(
            self.recipes.as_slice(),
            [Recipe {
                kind: Kind::Units,
                ..
            }]
        );
        is_units && self.patience.is_none() && self.look_up.is_empty()
    }

    /// Attaches to a request what was asked to be known of it.
    async fn find_out<B>(&self, request: &mut Request<B>) {
        for look_up in &self.look_up {
            let finding = look_up(&Head::of(request));
            finding.await(request.extensions_mut());
        }
    }

    async fn decide(&self, charges: &Charges) -> Result<(Decision, Option<Permit>), Error> {
        let needs_permit = |kind: Kind, cost| kind == Kind::Place && cost > 0;
        let holds = charges
            .iter()
            .any(|charge| needs_permit(self.recipes[charge.recipe].kind, charge.cost));
        if let [charge] = charges.as_slice()
            && charge.quota.is_none()
        {
            let limit = &self.recipes[charge.recipe].limit;
            return self
                .answer(
                    self.limiter.check(limit, &charge.key).cost(charge.cost),
                    holds,
                )
                .await;
        }
        let mut ask = self.limiter.request(Intent::Spend);
        for charge in charges {
            ask = ask
                .and(&self.recipes[charge.recipe].limit, &charge.key)
                .limit_cost(charge.cost);
            if let Some(quota) = &charge.quota {
                ask = ask.quota(**quota);
            }
        }
        self.answer(ask, holds).await
    }

    async fn answer<'a, S: Demands<'a>>(
        &self,
        ask: Check<'a, S>,
        holds: bool,
    ) -> Result<(Decision, Option<Permit>), Error> {
        if !holds {
            let decision = match self.patience {
                Some(patience) => ask.wait_up_to(patience).await?,
                None => ask.wait_in_queue().await?,
            };
            return Ok((decision, None));
        }
        let acquired = match self.patience {
            Some(patience) => ask.acquire_up_to(patience).await?,
            None => ask.acquire_in_queue().await?,
        };
        Ok(match acquired {
            Acquisition::Held(permit) => (permit.decision().clone(), Some(permit)),
            Acquisition::Denied(decision) => (decision, None),
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
        let later =
            looks_back.then(|| Box::new(Later::new(self, request, charges(), &decision, permit)));
        Admission::Passes(Some(Box::new(Visit::new(self, decision, later))))
    }
}

#[cold]
fn broken(error: &Error) -> Box<Cause> {
    Box::new(Cause::Broken {
        what: error.to_string(),
    })
}
