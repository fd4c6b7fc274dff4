//! The question to the limiter, and what follows from its answer.

use std::sync::Arc;

use http::Request;
use tollgate::limiter::{Acquired, Ask, Select};
use tollgate::store::Intent;
use tollgate::{Decision, Error, Permit};

use super::{Charge, Charges, Kind, Plan};
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

/// What can be said of a request on the spot.
pub(crate) enum AtOnce {
    /// Everything.
    Known(Admission),
    /// What the limits ask of it, if they need not wait for something to be found out.
    Open(Option<Charges>),
}

impl Plan {
    /// What becomes of a request, as far as that can be said on the spot.
    pub(crate) fn admit_at_once<B>(self: &Arc<Self>, request: &mut Request<B>) -> AtOnce {
        self.watch.sees();
        if !self.look_up.is_empty() {
            return AtOnce::Open(None);
        }
        let head = Head::of(request);
        let charges = match self.select(&head) {
            Ok(charges) => charges,
            Err(cause) => return AtOnce::Known(Admission::Refused(cause)),
        };
        let charge = match charges.as_slice() {
            [] => return AtOnce::Known(Admission::Free),
            [charge] if self.is_plain(charge) => charge,
            _ => return AtOnce::Open(Some(charges)),
        };
        let began = self.began();
        let mut ask = self.limiter.check(&self.recipes[charge.recipe].limit, &charge.key).cost(charge.cost);
        if let Some(quota) = charge.quota {
            ask = ask.quota(quota);
        }
        let Some(decided) = ask.at_once().transpose() else { return AtOnce::Open(Some(charges)) };
        if let Ok(decision) = &decided {
            self.tell(&head, decision, began);
        }
        AtOnce::Known(self.conclude(request, charges, decided.map(|decision| (decision, None))))
    }

    /// What becomes of a request, of which is known what the limits ask of it, or nothing yet.
    pub(crate) async fn admit<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        charges: Option<Charges>,
    ) -> Admission {
        let selected = if let Some(charges) = charges {
            Ok(charges)
        } else {
            self.find_out(request).await;
            self.select(&Head::of(request))
        };
        let charges = match selected {
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

    /// Attaches to a request what was asked to be known of it.
    async fn find_out<B>(&self, request: &mut Request<B>) {
        for look_up in &self.look_up {
            let finding = look_up(&Head::of(request));
            finding.await(request.extensions_mut());
        }
    }

    /// True when a charge is answered on the spot, if the store can.
    fn is_plain(&self, charge: &Charge) -> bool {
        self.patience.is_none() && self.recipes[charge.recipe].kind == Kind::Units
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
