//! A store with fault injection.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tollgate::store::{Ending, Intent, SettleReply, Settlement, SpendReply, StoreFuture};
use tollgate::{
    Demand, Key, ManualClock, MemoryStore, Outcome, PermitId, Source, Store, StoreError,
};

/// How store calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    Timeout,
    Unavailable,
    Overloaded,
    Refused,
}

impl InjectedFault {
    pub(crate) const ALL: [Self; 4] = [
        Self::Timeout,
        Self::Unavailable,
        Self::Overloaded,
        Self::Refused,
    ];

    fn error(self) -> StoreError {
        match self {
            Self::Timeout => StoreError::Timeout,
            Self::Unavailable => StoreError::Unavailable("connection refused".into()),
            Self::Overloaded => StoreError::Overloaded,
            Self::Refused => StoreError::Refused("READONLY".into()),
        }
    }
}

/// How the store replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    /// With a future that is ready.
    Ready,
    /// With a future that is ready when polled for the second time, like a remote store.
    Pending,
    /// Like `Ready`, but single demands are decided without a call, as if from a lease.
    Lease,
}

/// A memory store that is called only while no fault is injected. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct FaultyStore {
    memory: MemoryStore,
    fault: Arc<Mutex<Option<InjectedFault>>>,
    reply_mode: ReplyMode,
    /// How many refunds and releases were called.
    returns: Arc<AtomicU64>,
}

impl FaultyStore {
    pub(crate) fn new(clock: &ManualClock, reply_mode: ReplyMode) -> Self {
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        Self {
            memory,
            fault: Arc::default(),
            reply_mode,
            returns: Arc::default(),
        }
    }

    pub(crate) fn fail(&self, fault: InjectedFault) {
        self.set(Some(fault));
    }

    pub(crate) fn heal(&self) {
        self.set(None);
    }

    fn set(&self, fault: Option<InjectedFault>) {
        *self
            .fault
            .lock()
            .expect("nothing panics while it is locked") = fault;
    }

    fn fault(&self) -> Option<InjectedFault> {
        *self
            .fault
            .lock()
            .expect("nothing panics while it is locked")
    }

    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Relaxed)
    }

    fn reply<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        let reply = match self.fault() {
            Some(fault) => StoreFuture::ready(Err(fault.error())),
            None => call(),
        };

        match self.reply_mode {
            ReplyMode::Ready | ReplyMode::Lease => reply,
            ReplyMode::Pending => StoreFuture::Pending(Box::pin(async move {
                PendingOnce::default().await;
                reply.await
            })),
        }
    }
}

/// A future that is pending on its first poll.
#[derive(Default)]
struct PendingOnce {
    polled: bool,
}

impl Future for PendingOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.polled {
            return Poll::Ready(());
        }
        self.polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Store for FaultyStore {
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        self.reply(|| self.memory.spend(demands, intent, permit_id))
    }

    fn try_spend(
        &self,
        demand: &Demand<'_>,
        intent: Intent,
        permit_id: PermitId,
    ) -> Option<(Outcome, Source)> {
        let is_decided = self.reply_mode == ReplyMode::Lease && self.fault().is_none();
        let (outcome, _) = is_decided
            .then(|| self.memory.try_spend(demand, intent, permit_id))
            .flatten()?;
        Some((outcome, Source::Lease))
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.returns.fetch_add(1, Relaxed);
        self.reply(|| self.memory.refund(demands))
    }

    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>> {
        self.reply(|| self.memory.settle(settlements, ending))
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.reply(|| self.memory.reset(key))
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.returns.fetch_add(1, Relaxed);
        self.reply(|| self.memory.release(demand, permit_id))
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.reply(|| self.memory.renew(demand, permit_id))
    }
}
