//! A store that records what happened to each store call, which the figures need and a decision
//! does not contain.

use std::cell::Cell;

use tollgate::store::{Ending, Intent, SettleReply, Settlement, SpendReply, StoreFuture};
use tollgate::{Demand, Key, Micros, PermitId, Store, StoreError};
use tollgate_redis::RedisStore;

/// What happened to a store call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFate {
    /// The store decided, at this time of its clock.
    Decided(Micros),
    /// The call failed without being sent. The text is the kind of error.
    NotSent(&'static str),
    /// The call was accepted and got no reply. It may have run.
    Lost(&'static str),
    /// The server replied with an error. The call has not run.
    Refused,
}

tokio::task_local! {
    /// The fate of the call that the task is making.
    static FATE: Cell<Option<CallFate>>;
}

/// Runs a check, and returns the fate of its store call too. There must be exactly one call.
pub(crate) async fn with_fate<T>(check: impl Future<Output = T>) -> (T, CallFate) {
    let both = async {
        let answer = check.await;
        (
            answer,
            FATE.with(Cell::get).expect("every check calls the store"),
        )
    };
    FATE.scope(Cell::new(None), both).await
}

/// The store of a load: a `RedisStore` that records the fate of each call.
#[derive(Debug)]
pub(crate) struct RecordingStore(pub(crate) RedisStore);

impl Store for RecordingStore {
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        match self.0.spend(demands, intent, permit_id) {
            StoreFuture::Ready(answer) => {
                if let Some(answer) = &answer {
                    record_fate(answer, CallFate::NotSent);
                }
                StoreFuture::Ready(answer)
            }

            StoreFuture::Pending(reply) => StoreFuture::Pending(Box::pin(async move {
                let answer = reply.await;
                record_fate(&answer, CallFate::Lost);
                answer
            })),
        }
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.0.refund(demands)
    }

    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>> {
        self.0.settle(settlements, ending)
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.0.reset(key)
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.0.release(demand, permit_id)
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.0.renew(demand, permit_id)
    }
}

fn record_fate(
    answer: &Result<SpendReply, StoreError>,
    otherwise: impl Fn(&'static str) -> CallFate,
) {
    let fate = match answer {
        Ok(spent) => CallFate::Decided(spent.at),
        Err(StoreError::Refused(_) | StoreError::Malformed { .. }) => CallFate::Refused,
        Err(error) => otherwise(error.kind()),
    };
    FATE.with(|cell| cell.set(Some(fate)));
}
