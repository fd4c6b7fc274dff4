//! A store that fails on command.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tollgate::store::{Intent, SpendReply, StoreFuture};
use tollgate::{Demand, Key, ManualClock, MemoryStore, PermitId, Store, StoreError};

/// How the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Timeout,
    Away,
    Overloaded,
    Refused,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::Timeout, Self::Away, Self::Overloaded, Self::Refused];

    fn error(self) -> StoreError {
        match self {
            Self::Timeout => StoreError::Timeout,
            Self::Away => StoreError::Unavailable("connection refused".into()),
            Self::Overloaded => StoreError::Overloaded,
            Self::Refused => StoreError::Refused("READONLY".into()),
        }
    }
}

/// How the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At once.
    AtOnce,
    /// After its future has been polled once in vain, as one that travels.
    Later,
}

/// A memory store that is asked only while nothing is wrong. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Flaky {
    memory: MemoryStore,
    fault: Arc<Mutex<Option<Fault>>>,
    way: Way,
    /// How often it was asked to give something back.
    returns: Arc<AtomicU64>,
}

impl Flaky {
    pub(crate) fn new(clock: &ManualClock, way: Way) -> Self {
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        Self {
            memory,
            fault: Arc::default(),
            way,
            returns: Arc::default(),
        }
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.set(Some(fault));
    }

    pub(crate) fn heal(&self) {
        self.set(None);
    }

    fn set(&self, fault: Option<Fault>) {
        *self
            .fault
            .lock()
            .expect("nothing panics while it is locked") = fault;
    }

    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Relaxed)
    }

    fn answer<'a, T: Send + Unpin + 'a>(
        &'a self,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        let fault = *self
            .fault
            .lock()
            .expect("nothing panics while it is locked");
        let answer = match fault {
            Some(fault) => StoreFuture::ready(Err(fault.error())),
            None => ask(),
        };
        match self.way {
            Way::AtOnce => answer,
            Way::Later => StoreFuture::Pending(Box::pin(async move {
                Once::default().await;
                answer.await
            })),
        }
    }
}

/// Pending once.
#[derive(Default)]
struct Once {
    polled: bool,
}

impl Future for Once {
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

impl Store for Flaky {
    fn spend<'a>(
        &'a self,
        checks: &[Demand<'_>],
        intent: Intent,
        lease: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        self.answer(|| self.memory.spend(checks, intent, lease))
    }

    fn refund<'a>(&'a self, checks: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.returns.fetch_add(1, Relaxed);
        self.answer(|| self.memory.refund(checks))
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.answer(|| self.memory.reset(key))
    }

    fn release<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.returns.fetch_add(1, Relaxed);
        self.answer(|| self.memory.release(check, lease))
    }

    fn renew<'a>(&'a self, check: &Demand<'_>, lease: PermitId) -> StoreFuture<'a, bool> {
        self.answer(|| self.memory.renew(check, lease))
    }
}
