//! A permit of a concurrency limit, held while a request is in flight.

use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate::{Micros, Permit, Sleep};

use crate::background;

/// Holds a permit and renews it in time. Dropping the guard releases the permit.
pub(crate) struct PermitGuard {
    permit: Arc<Permit>,
    clock: Arc<dyn tollgate::Clock>,
    /// A third of the permit timeout, so that one renewal may be late or lost.
    renew_interval: Micros,
    next_renewal: Sleep,
}

impl PermitGuard {
    /// Guards a permit that expires if it is not renewed within `permit_timeout`.
    pub(crate) fn new(
        permit: Permit,
        clock: &Arc<dyn tollgate::Clock>,
        permit_timeout: Micros,
    ) -> Self {
        let renew_interval = Micros::new((permit_timeout.get() / 3).max(1));

        Self {
            permit: Arc::new(permit),
            clock: clock.clone(),
            renew_interval,
            next_renewal: clock.sleep(renew_interval),
        }
    }

    /// Renews the permit if it is due, and registers the task to be woken at the next renewal.
    pub(crate) fn poll_renewal(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(()) = self.next_renewal.as_mut().poll(context) {
            let permit = self.permit.clone();
            background::run(async move { permit.renew().await.map(drop) });
            self.next_renewal = self.clock.sleep(self.renew_interval);
        }
    }
}
