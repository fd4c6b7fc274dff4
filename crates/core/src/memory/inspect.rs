//! Inspections: peeks that also report what the counters contain.

use super::context::DemandContext;
use super::counters::Counters;
use super::large::LargeState;
use super::reservations::Reservations;
use super::shard::LockedShard;
use super::small::SlotFormat;
use crate::algorithm::remote::{CounterState, EntryTotals};
use crate::algorithm::{AMOUNT_MAX, CounterView, Outcome, Quota, ReservedUnits};
use crate::demand::Demand;
use crate::store::{Source, SpendReply};
use crate::time::Micros;

impl Counters {
    /// Peeks at several demands, and reports what their counters contain at the same moment.
    #[cold]
    pub(super) fn inspect_all(&self, demands: &[Demand<'_>]) -> SpendReply {
        let fingerprints = self.fingerprints(demands);
        let mut locks = self.lock_all(demands, &fingerprints, true);
        let now = self.clock.now();
        let (mut outcomes, mut counters) = (Vec::new(), Vec::new());
        for (demand, fingerprint) in demands.iter().zip(fingerprints) {
            let context = DemandContext::peek(demand, fingerprint, now);
            let shard = self.locked_shard(&mut locks, fingerprint);
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
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
    ) -> (Outcome, Option<CounterView>) {
        let evaluation = self.evaluate(shard, context);
        let outcome = self.finish(shard, &evaluation, context, false);

        let lockout = Self::lockout_state(shard, context);
        let view = view(shard, context).map(|view| {
            let reservations = shard.reservations().as_deref();
            let outstanding = |known: &Reservations| known.outstanding(context.fingerprint);
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

/// What the counter of a demand contains, without its reservations. `None` if it belongs to another
/// algorithm.
pub(super) fn view(
    shard: &mut LockedShard<'_>,
    context: &DemandContext<'_>,
) -> Option<CounterView> {
    let &DemandContext {
        quota,
        fingerprint,
        now,
        ..
    } = context;
    let mut oldest = None;
    let state = match quota {
        Quota::FixedWindow(quota) => CounterState::Fixed(small_state(shard, quota, context)),
        Quota::SlidingWindow(quota) => CounterState::Sliding(small_state(shard, quota, context)),
        Quota::TokenBucket(quota) => CounterState::Bucket(small_state(shard, quota, context)),
        Quota::LeakyBucket(quota) => CounterState::Bucket(small_state(shard, quota, context)),
        Quota::SlidingLog(_) | Quota::Concurrency(_) => {
            let sum = match shard.large(fingerprint).map(|entry| &entry.state) {
                Some(LargeState::Log(log)) => {
                    oldest = log.oldest();
                    log.sum()
                }
                Some(LargeState::Permits(permits)) => permits.sum(),
                _ => 0,
            };
            // The other totals matter for outcomes only.
            let (until, frees) = (Micros::ZERO, Micros::ZERO);
            CounterState::Entries(EntryTotals { sum, until, frees })
        }
    };
    CounterView::new(quota, state, oldest, now)
}

/// The state of a demand's counter, or that of a counter that was never used.
fn small_state<Q: SlotFormat>(
    shard: &mut LockedShard<'_>,
    quota: &Q,
    context: &DemandContext<'_>,
) -> Q::State {
    let stored = shard.small(context.fingerprint);
    stored.map_or_else(Q::State::default, |stored| {
        quota.read_at(&stored, context.now).0
    })
}
