//! A place under a concurrency limit, kept for as long as the request takes.

use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate::{Micros, Permit, Sleep};

use crate::start;

/// A permit and when to renew it. Dropping it gives the place back.
pub(crate) struct Held {
    permit: Arc<Permit>,
    clock: Arc<dyn tollgate::Clock>,
    /// Often enough that one renewal may be late or lost.
    every: Micros,
    next: Sleep,
}

impl Held {
    /// Keeps a permit whose shortest lease lasts so long.
    pub(crate) fn new(permit: Permit, clock: &Arc<dyn tollgate::Clock>, lease: Micros) -> Self {
        let every = Micros::new((lease.get() / 3).max(1));
        Self {
            permit: Arc::new(permit),
            clock: clock.clone(),
            every,
            next: clock.sleep(every),
        }
    }

    /// Renews the lease when it is time, and has the task woken when it will be.
    pub(crate) fn keep(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(()) = self.next.as_mut().poll(context) {
            let permit = self.permit.clone();
            start::to_the_end(async move { permit.renew().await.map(drop) });
            self.next = self.clock.sleep(self.every);
        }
    }
}
