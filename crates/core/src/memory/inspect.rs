//! Inspections: peeks that also report what the counters contain.

use super::context::DemandContext;
use super::counters::Counters;
use super::reservations::Reservations;
use super::shard::CounterShard;
use crate::algorithm::{AMOUNT_MAX, CounterView, Outcome, ReservedUnits};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::store::{Source, SpendReply};
use crate::time::Micros;

impl Counters {
    /// Peeks at several demands, and reports what their counters contain at the same moment.
    #[cold]
    pub(super) fn inspect_all(
        &self,
        demands: &[Demand<'_>],
        fingerprints: &[Fingerprint],
        clock: impl Fn() -> Micros,
    ) -> SpendReply {
        let mut locks = self.lock_all(demands, fingerprints, true, &clock);
        let now = clock();
        let (mut outcomes, mut counters) = (Vec::new(), Vec::new());
        for (demand, fingerprint) in demands.iter().zip(fingerprints) {
            let context = self.peek_context(demand, *fingerprint, now);
            let shard = self.locked_shard(&mut locks, *fingerprint);
            let (outcome, counter) = self.inspect(shard, &context);
            outcomes.push(outcome);
            counters.extend(counter);
        }

        let mut reply = SpendReply::new(outcomes, Source::Store, now);
        reply.counters = counters;
        reply
    }

    fn inspect(
        &self,
        shard: &mut CounterShard,
        context: &DemandContext<'_>,
    ) -> (Outcome, Option<CounterView>) {
        let counter = context.fingerprint;
        let index = shard.find(counter);
        let evaluation = self.evaluate(shard, index, context);
        let outcome = self.finish(shard, &evaluation, context, false);

        let index = shard.find(counter);
        let lockout = Self::lockout_state(shard, context);
        let view = shard.view(index, context).map(|view| {
            let reservations = shard.reservations.as_deref();
            let outstanding = |known: &Reservations| known.outstanding(counter);
            let (count, units) = reservations.map_or((0, 0), outstanding);
            CounterView {
                reserved: ReservedUnits {
                    count,
                    units: units.min(AMOUNT_MAX),
                },
                lockout: lockout.map(|state| state.view(context.now)),
                ..view
            }
        });
        (outcome, view)
    }
}
