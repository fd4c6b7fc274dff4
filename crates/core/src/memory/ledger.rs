//! The counters of a memory store for the exclusive use of one thread.

use std::fmt;
use std::hint::black_box;

use smallvec::SmallVec;

use super::counters::Counters;
use super::hot_key::SplitPolicy;
use crate::algorithm::{Outcome, PermitId};
use crate::demand::Demand;
use crate::key::{Fingerprint, Fingerprinter, Key};
use crate::store::Intent;
use crate::time::Micros;

/// The counters of a [`MemoryStore`](super::MemoryStore) for the exclusive use of one thread.
///
/// A ledger gives the same outcomes without a clock and without waiting, for replays of millions of
/// requests. A caller that knows its next requests can [`prefetch`](Self::prefetch) their counters
/// together, instead of waiting for memory once per request. It is for tools, see
/// [`store`](crate::store#for-authors-of-stores).
///
/// ```
/// use std::time::Duration;
/// use tollgate::memory::Ledger;
/// use tollgate::{Demand, EncodedKey, Limit, Micros};
///
/// let rule = Limit::sliding_log("api", 2, Duration::from_secs(60)).validate()?;
/// let demand = Demand::new(&rule, EncodedKey::new("ann")?);
/// let demand = demand.as_demand();
///
/// let mut ledger = Ledger::new(1_000_000);
/// let counter = ledger.counter_id(&demand.key);
/// ledger.prefetch(&[counter]);
/// let mut outcomes = Vec::new();
/// for second in 0..3 {
///     ledger.spend(&[demand], &[counter], Micros::from_secs(second), &mut outcomes);
/// }
/// assert_eq!(outcomes.iter().map(|outcome| outcome.remaining).collect::<Vec<_>>(), [1, 0, 0]);
/// assert!(!outcomes[2].verdict.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ledger {
    counters: Counters,
}

/// Identifies a counter of a [`Ledger`], whether it exists yet or not.
#[derive(Clone, Copy, Debug)]
pub struct CounterId(Fingerprint);

impl Ledger {
    /// An empty ledger for at most `keys_max` counters, at least 1.
    pub fn new(keys_max: usize) -> Self {
        let fingerprinter = Fingerprinter::with_random_seeds();
        Self {
            counters: Counters::new(keys_max.max(1), SplitPolicy::default(), fingerprinter),
        }
    }

    /// The number of counters in the ledger.
    pub fn keys(&self) -> usize {
        self.counters.keys()
    }

    /// The configured cap on the number of counters.
    pub const fn keys_max(&self) -> usize {
        self.counters.key_cap().max()
    }

    /// The id of the counter of `key`.
    #[inline]
    pub fn counter_id(&self, key: &Key<'_>) -> CounterId {
        CounterId(self.counters.fingerprinter.fingerprint(key))
    }

    /// Reads counters into the processor's cache, in parallel. This only makes them faster to
    /// access.
    pub fn prefetch(&mut self, counters: &[CounterId]) {
        black_box(counters.iter().fold(0, |sum, CounterId(fingerprint)| {
            sum ^ self.counters.touch(*fingerprint)
        }));
    }

    /// Spends all demands or none of them, and appends their outcomes to `outcomes` in the order of
    /// the demands.
    ///
    /// `counters` holds the id of each demand's counter in the same order. `now` must not go back
    /// from call to call. A demand of a concurrency limit acquires a permit that cannot be
    /// released.
    #[inline]
    pub fn spend(
        &mut self,
        demands: &[Demand<'_>],
        counters: &[CounterId],
        now: Micros,
        outcomes: &mut Vec<Outcome>,
    ) {
        let (intent, permit_id) = (Intent::Spend, PermitId::NONE);
        let (clock, mut report) = (|| now, |outcome| outcomes.push(outcome));

        if let ([demand], &[CounterId(fingerprint)]) = (demands, counters) {
            let outcome =
                (self.counters).spend_one(demand, fingerprint, intent, permit_id, clock, |it| it);
            report(outcome);
        } else {
            let fingerprint = |CounterId(fingerprint): &CounterId| *fingerprint;
            let fingerprints: SmallVec<[Fingerprint; 4]> =
                counters.iter().map(fingerprint).collect();
            (self.counters).spend_all(demands, &fingerprints, intent, permit_id, clock, report);
        }
    }
}

/// Shows the cap only, not the counters.
impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("keys_max", &self.keys_max())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::MemoryStore;
    use super::*;
    use crate::algorithm::Rate;
    use crate::clock::ManualClock;
    use crate::demand::DemandBuf;
    use crate::limit::{Limit, Rule};

    fn rules() -> Vec<Rule> {
        let minute = Duration::from_secs(60);
        let limits = [
            Limit::sliding_window("window", 6, minute),
            Limit::token_bucket("bucket", 4, Rate::per_minute(7)),
            Limit::sliding_log("log", 5, minute).shadow(),
            Limit::queue("queue", 3, Rate::per_second(1)),
            Limit::fixed_window("fixed", 9, minute),
        ];
        limits.map(|limit| limit.validate().unwrap()).to_vec()
    }

    proptest! {
        /// A ledger and a store give the same outcomes, whether counters are fetched ahead or not.
        #[test]
        fn a_ledger_gives_the_same_outcomes_as_the_store(
            requests in proptest::collection::vec(
                (
                    0..20_000_000_u64,
                    prop::sample::subsequence(vec![0, 1, 2, 3, 4], 1..=5),
                    0..4_usize,
                    0..7_u64,
                ),
                1..150,
            ),
            is_fetched in any::<bool>(),
        ) {
            let (rules, clock) = (rules(), ManualClock::default());
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let mut ledger = Ledger::new(1_000_000);
            for (elapsed, limits, user, cost) in requests {
                clock.advance(Duration::from_micros(elapsed));
                let user = ["ann", "bob", "eve", "joe"][user];
                let demand = |limit: &usize| DemandBuf::new(&rules[*limit], user, cost).unwrap();
                let owned: Vec<DemandBuf> = limits.iter().map(demand).collect();
                let demands: Vec<Demand<'_>> = owned.iter().map(DemandBuf::as_demand).collect();
                let counters: Vec<CounterId> =
                    demands.iter().map(|demand| ledger.counter_id(&demand.key)).collect();

                if is_fetched {
                    ledger.prefetch(&counters);
                }
                let mut outcomes = Vec::new();
                ledger.spend(&demands, &counters, crate::Clock::now(&clock), &mut outcomes);
                let reply = store.spend_all(&demands, Intent::Spend, PermitId::NONE);
                let expected: Vec<Outcome> =
                    reply.outcomes().iter().map(|(outcome, _)| *outcome).collect();
                prop_assert_eq!(outcomes, expected);
            }
        }
    }

    #[test]
    fn the_cap_holds() {
        let rule = &rules()[1];
        let mut ledger = Ledger::new(1_000);
        for number in 0..20_000_u64 {
            let demand = DemandBuf::new(rule, number, 1).unwrap();
            let demand = demand.as_demand();
            let counter = ledger.counter_id(&demand.key);
            ledger.spend(&[demand], &[counter], Micros::from_secs(1), &mut Vec::new());
            assert!(ledger.keys() <= 1_000);
        }
    }
}
