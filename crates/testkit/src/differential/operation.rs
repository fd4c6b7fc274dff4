//! One operation of a trace: done by the store, and then by the model.

use std::pin::Pin;

use tollgate::store::{
    Ending, Intent, ReservationEnd, SettleReply, Settlement, SettlementKind, SpendReply,
};
use tollgate::{Demand, DemandBuf, Micros, Outcome, PermitId, Source, Store, StoreError};

use crate::model::ModelStore;

/// The reply of a store to an operation, when it is there.
pub type PendingReply<'a> =
    Pin<Box<dyn Future<Output = Result<OperationReply, StoreError>> + Send + 'a>>;

/// The reply of a store to an operation.
#[derive(Debug)]
pub enum OperationReply {
    /// To a spend, a peek, a count or a reservation.
    Spent(SpendReply),
    /// To a settlement.
    Settled(Vec<SettleReply>),
    /// To a release or a renewal: whether the permit was held.
    Permit(bool),
    /// To a refund or a reset.
    Done,
}

pub(super) struct Operation {
    pub(super) what: &'static str,
    pub(super) demands: Vec<DemandBuf>,
    pub(super) action: Action,
}

pub(super) enum Action {
    Spend(Intent, PermitId),
    /// Like a spend, without waiting if the store can do that.
    SpendOne(Intent, PermitId),
    /// With the actual cost of each demand; `None` if it stays what was reserved.
    Settle(Vec<Option<u64>>, Ending),
    Refund,
    Reset,
    Release(PermitId),
    Renew(PermitId),
}

impl Operation {
    /// Passes the operation to the store.
    pub(super) fn start<'s>(&self, store: &'s dyn Store, now: Micros) -> PendingReply<'s> {
        let demands = borrowed(&self.demands);
        match &self.action {
            Action::SpendOne(intent, id) => match store.try_spend(&demands[0], *intent, *id) {
                Some((outcome, _)) => {
                    let reply = SpendReply::new([outcome], Source::Store, now);
                    Box::pin(async { Ok(OperationReply::Spent(reply)) })
                }
                None => spend(store, &demands, *intent, *id),
            },
            Action::Spend(intent, id) => spend(store, &demands, *intent, *id),
            Action::Settle(actuals, ending) => {
                let reply = store.settle(&settlements(&demands, actuals), *ending);
                Box::pin(async { Ok(OperationReply::Settled(reply.await?)) })
            }
            Action::Refund => {
                let reply = store.refund(&demands);
                Box::pin(async { reply.await.map(|()| OperationReply::Done) })
            }
            Action::Reset => {
                let reply = store.reset(&demands[0].key);
                Box::pin(async { reply.await.map(|()| OperationReply::Done) })
            }
            Action::Release(id) => {
                let reply = store.release(&demands[0], *id);
                Box::pin(async { Ok(OperationReply::Permit(reply.await?)) })
            }
            Action::Renew(id) => {
                let reply = store.renew(&demands[0], *id);
                Box::pin(async { Ok(OperationReply::Permit(reply.await?)) })
            }
        }
    }

    /// Does the operation in the model and compares the store's reply.
    pub(super) fn confirm(
        &self,
        model: &mut ModelStore,
        reply: &OperationReply,
        now: Micros,
    ) -> Result<(), String> {
        let demands = borrowed(&self.demands);
        match (&self.action, reply) {
            (
                Action::Spend(intent, id) | Action::SpendOne(intent, id),
                OperationReply::Spent(spent),
            ) => model.confirm(&demands, *intent, *id, spent),
            (Action::Settle(actuals, ending), OperationReply::Settled(got)) => {
                let settlements = settlements(&demands, actuals);
                let expected = model.settle_reservation(&settlements, *ending, now);
                let got: Vec<(SettlementKind, ReservationEnd)> =
                    got.iter().map(|reply| (reply.kind, reply.end)).collect();
                same("settlement", &expected, &got)
            }
            (Action::Refund, _) => {
                model.refund(&demands, now);
                Ok(())
            }
            (Action::Reset, _) => {
                model.reset(&demands[0].key);
                Ok(())
            }
            (Action::Release(id), OperationReply::Permit(got)) => {
                same("permit", &model.release(&demands[0], *id, now), got)
            }
            (Action::Renew(id), OperationReply::Permit(got)) => {
                same("permit", &model.renew(&demands[0], *id, now), got)
            }
            (_, reply) => Err(format!("unexpected {reply:?}")),
        }
    }
}

impl OperationReply {
    /// The outcomes of a spend, a peek, a count or a reservation.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        match self {
            Self::Spent(spent) => spent
                .outcomes()
                .iter()
                .map(|(outcome, _)| *outcome)
                .collect(),
            Self::Settled(_) | Self::Permit(_) | Self::Done => Vec::new(),
        }
    }
}

fn spend<'s>(
    store: &'s dyn Store,
    demands: &[Demand<'_>],
    intent: Intent,
    id: PermitId,
) -> PendingReply<'s> {
    let reply = store.spend(demands, intent, id);
    Box::pin(async { Ok(OperationReply::Spent(reply.await?)) })
}

fn settlements<'d>(demands: &[Demand<'d>], actuals: &[Option<u64>]) -> Vec<Settlement<'d>> {
    let pairs = demands.iter().zip(actuals);
    pairs
        .map(|(demand, actual)| match actual {
            Some(actual) => Settlement::new(*demand, *actual),
            None => Settlement::fixed(*demand),
        })
        .collect()
}

fn borrowed(demands: &[DemandBuf]) -> Vec<Demand<'_>> {
    demands.iter().map(DemandBuf::as_demand).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {got:?}"))
    }
}
