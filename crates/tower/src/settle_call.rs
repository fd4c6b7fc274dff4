//! A settlement on its way to the store, repeated while the store is unavailable.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::store::{Ending, ReservationEnd, SETTLED_FOR, Settlement};
use tollgate::{Error, Micros, PermitId};

use crate::background;
use crate::limit::OwnedDemand;
use crate::policy::{LayerDemands, LayerPolicy};

/// How often a settlement is repeated while the store is unavailable.
const RETRIES: u32 = 9;
/// The pause before the first repetition. Each pause is twice as long as the one before.
const FIRST_PAUSE: Micros = Micros::from_millis(100);

// A repetition charges nothing twice, as long as the store remembers the first settlement. The
// pauses take 51 seconds, and each call ends by the deadline of the store.
const _: () = assert!((FIRST_PAUSE.get() << RETRIES) * 2 < SETTLED_FOR.get());

/// What demands of a reservation have really cost; `None` if that is what was reserved.
pub(crate) type ActualCosts = SmallVec<[(OwnedDemand, Option<u64>); 1]>;

/// A settlement that the store has not confirmed. If it is dropped, it has failed.
pub(crate) struct SettleCall {
    policy: Arc<LayerPolicy>,
    reservation: PermitId,
    costs: ActualCosts,
    is_confirmed: bool,
}

impl SettleCall {
    /// Settles in the background. On a memory store the call has taken effect when this returns.
    pub(crate) fn start(policy: &Arc<LayerPolicy>, reservation: PermitId, costs: ActualCosts) {
        let call = Self {
            policy: policy.clone(),
            reservation,
            costs,
            is_confirmed: false,
        };
        background::run(call.run());
    }

    async fn run(mut self) -> Result<(), Error> {
        let mut result = self.attempt().await;
        // Too many that wait for the store would fill the memory of the process.
        let monitor = self.policy.monitor.clone();
        let waiting = if let Err(Error::Store(_)) = &result {
            monitor.wait_for_settlement()
        } else {
            None
        };

        for retry in 0..RETRIES {
            if waiting.is_none() || !matches!(result, Err(Error::Store(_))) {
                break;
            }
            let pause = Micros::new(FIRST_PAUSE.get() << retry);
            self.policy.limiter.clock().sleep(pause).await;
            result = self.attempt().await;
        }

        self.is_confirmed = result.is_ok();
        result
    }

    async fn attempt(&self) -> Result<(), Error> {
        let demands = self.costs.iter().map(|(demand, _)| demand.clone());
        let demands: LayerDemands<'_> = demands.map(|demand| self.policy.restore(demand)).collect();
        let pairs = demands.iter().zip(&self.costs);
        let settlements: SmallVec<[Settlement<'_>; 1]> = pairs
            .map(|(demand, (_, actual))| match actual {
                Some(actual) => Settlement::new(demand.as_demand(), *actual),
                None => Settlement::fixed(demand.as_demand()),
            })
            .collect();

        let ending = Ending::new(self.reservation, ReservationEnd::Settled);
        let limiter = &self.policy.limiter;
        limiter.settle_request(&settlements, ending).await.map(drop)
    }
}

impl Drop for SettleCall {
    fn drop(&mut self) {
        let limits = self.costs.iter().map(|(demand, _)| {
            let limit = &self.policy.limits[demand.limit_index];
            limit.rule.name()
        });
        let monitor = &self.policy.monitor;
        monitor.record_settlement(self.is_confirmed, limits);
    }
}
