//! A store that notes what became of every question: what a decision does not tell, and the figures
//! need.

use std::cell::Cell;

use tollgate::store::{Intent, SpendReply, StoreFuture};
use tollgate::{Demand, Key, Micros, PermitId, Store, StoreError};
use tollgate_redis::RedisStore;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The store decided, at this moment of its own time.
    Decided(Micros),
    /// The store refused at once: nothing was sent.
    NotSent(&'static str),
    /// It was taken in and no answer came. It may have run.
    Lost(&'static str),
    /// The server said no. It has not run.
    Refused,
}

tokio::task_local! {
    /// The fate of the question that the task is asking.
    static FATE: Cell<Option<Fate>>;
}

/// Asks, and says what became of the question as well. It must reach the store once.
pub(crate) async fn with_fate<T>(asking: impl Future<Output = T>) -> (T, Fate) {
    let both = async {
        let answer = asking.await;
        (
            answer,
            FATE.with(Cell::get)
                .expect("every question reaches the store"),
        )
    };
    FATE.scope(Cell::new(None), both).await
}

/// The store of a load.
#[derive(Debug)]
pub(crate) struct Watched(pub(crate) RedisStore);

impl Store for Watched {
    fn spend<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        match self.0.spend(checks, intent, lease) {
            StoreFuture::Ready(answer) => {
                if let Some(answer) = &answer {
                    note(answer, Fate::NotSent);
                }
                StoreFuture::Ready(answer)
            }
            StoreFuture::Pending(coming) => StoreFuture::Pending(Box::pin(async move {
                let answer = coming.await;
                note(&answer, Fate::Lost);
                answer
            })),
        }
    }

    fn refund<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.0.refund(checks)
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.0.reset(key)
    }

    fn release<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.0.release(check, lease)
    }

    fn renew<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.0.renew(check, lease)
    }
}

fn note(answer: &Result<SpendReply, StoreError>, otherwise: impl Fn(&'static str) -> Fate) {
    let fate = match answer {
        Ok(spent) => Fate::Decided(spent.at),
        Err(StoreError::Refused(_)) => Fate::Refused,
        Err(error) => otherwise(error.kind()),
    };
    FATE.with(|place| place.set(Some(fate)));
}
