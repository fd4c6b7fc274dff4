//! The counters of a memory store in the hands of one thread.

use std::fmt;
use std::hint::black_box;

use super::evict::Offenders;
use super::fingerprint::Fingerprint;
use super::shard::{Shard, Spend};
use super::together::{Shards, Together};
use super::{Budget, Inner, MemoryStore, NEIGHBOURS};
use crate::algorithm::{Outcome, PermitId};
use crate::clock::ManualClock;
use crate::key::Key;
use crate::lock::Padded;
use crate::store::{Demand, Intent};
use crate::time::Micros;

/// The counters of a [`MemoryStore`] in the hands of one thread: the same answers without locks and
/// without a clock, for replays that put millions of questions. Whoever knows the next questions
/// can [`fetch`](Self::fetch) their counters together, instead of waiting for memory with each of
/// them.
///
/// ```
/// use std::time::Duration;
/// use tollgate::memory::Ledger;
/// use tollgate::{EncodedKey, Limit, Micros};
///
/// let rule = Limit::sliding_log("api", 2, Duration::from_secs(60)).rule()?;
/// let key = EncodedKey::new("ann")?;
/// let check = rule.demand_for(&key, rule.quota(), 1);
///
/// let mut ledger = Ledger::new(1_000_000);
/// let place = ledger.place(&check.key);
/// ledger.fetch(&[place]);
/// let mut outcomes = Vec::new();
/// for second in 0..3 {
///     ledger.spend(&[check], &[place], Micros::from_secs(second), &mut outcomes);
/// }
/// assert_eq!(outcomes.iter().map(|outcome| outcome.remaining).collect::<Vec<_>>(), [1, 0, 0]);
/// assert!(!outcomes[2].verdict.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ledger {
    inner: Inner,
}

/// Where a [`Ledger`] keeps a counter.
#[derive(Clone, Copy, Debug)]
pub struct Place(Fingerprint);

impl Ledger {
    /// An empty one with room for so many counters, at least 1.
    pub fn new(keys_max: usize) -> Self {
        // Every question says what time it is, so this clock is never asked and costs nothing.
        let unasked = ManualClock::default();
        Self {
            inner: MemoryStore::builder()
                .keys_max(keys_max)
                .clock(unasked)
                .build_inner(),
        }
    }

    /// How many counters are kept.
    pub fn keys(&self) -> usize {
        self.inner.keys()
    }

    /// The cap that was asked for.
    pub const fn keys_max(&self) -> usize {
        self.inner.budget.max()
    }

    /// Where a counter is, or will be.
    #[inline]
    pub fn place(&self, key: &Key<'_>) -> Place {
        Place(self.inner.prints.of(key))
    }

    /// Brings counters near, all at the same time. It changes nothing but how soon they are at
    /// hand.
    pub fn fetch(&mut self, places: &[Place]) {
        let mut shards = Own::new(&mut self.inner.shards, &self.inner.budget);
        black_box(
            places
                .iter()
                .fold(0, |sum, Place(print)| sum ^ shards.of(*print).touch(*print)),
        );
    }

    /// Spends checks together or none of them, and tells the outcomes in the order asked. Checks
    /// and places belong together one by one, and time does not go back. A check of a concurrency
    /// limit takes a place that nobody gives back.
    #[inline]
    pub fn spend(
        &mut self,
        checks: &[Demand<'_>],
        places: &[Place],
        now: Micros,
        tell: &mut Vec<Outcome>,
    ) {
        self.inner.sweep_in_passing(now);
        let Inner {
            shards,
            budget,
            newcomers,
            ..
        } = &mut self.inner;
        let (budget, newcomers, lease, intent) =
            (&*budget, *newcomers, PermitId::NONE, Intent::Spend);
        let mut shards = Own::new(shards, budget);
        if let ([check], [Place(print)]) = (checks, places) {
            let shard = shards.of(*print);
            let spend = Spend {
                check,
                print: *print,
                lease,
                now,
                budget,
            };
            let tell = |outcome: Outcome| tell.push(outcome);
            if shard
                .find(*print)
                .and_then(|at| shard.spend_at(at, &spend, tell))
                .is_some()
            {
                return;
            }
        }
        let prints: smallvec::SmallVec<[Fingerprint; 4]> =
            places.iter().map(|Place(print)| *print).collect();
        let together = Together {
            checks,
            prints: &prints,
            intent,
            lease,
            now,
            budget,
            newcomers,
        };
        together.spend(&mut shards, |outcome| tell.push(outcome));
    }
}

/// Its size, and nothing of what it knows.
impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("keys_max", &self.keys_max())
            .finish_non_exhaustive()
    }
}

/// All shards, which are one's own.
struct Own<'a> {
    shards: &'a mut [Padded<Shard>],
    /// The number of shards is a power of two.
    mask: usize,
    budget: &'a Budget,
}

impl<'a> Own<'a> {
    #[inline]
    fn new(shards: &'a mut [Padded<Shard>], budget: &'a Budget) -> Self {
        let mask = shards.len() - 1;
        Self {
            shards,
            mask,
            budget,
        }
    }
}

impl Shards for Own<'_> {
    #[inline]
    fn of(&mut self, print: Fingerprint) -> &mut Shard {
        self.shards[print.high as usize & self.mask].get_mut()
    }

    #[cold]
    fn make_room(&mut self, needy: Fingerprint, now: Micros) {
        let (home, budget) = (needy.high as usize, self.budget);
        let spared = (0..=NEIGHBOURS).any(|step| {
            let shard = self.shards[(home + step) & self.mask].get_mut();
            shard.evict(needy, now, budget, Offenders::Spare)
        });
        if !spared {
            self.of(needy)
                .evict(needy, now, budget, Offenders::LastResort);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::Rate;
    use crate::key::EncodedKey;
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
        limits.map(|limit| limit.rule().unwrap()).to_vec()
    }

    proptest! {
        /// Both answer alike, whatever is fetched ahead.
        #[test]
        fn it_answers_as_the_store_does(
            requests in proptest::collection::vec(
                (0..20_000_000_u64, prop::sample::subsequence(vec![0, 1, 2, 3, 4], 1..=5), 0..4_usize, 0..7_u64),
                1..150,
            ),
            is_fetched in any::<bool>(),
        ) {
            let (rules, clock) = (rules(), ManualClock::default());
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let mut ledger = Ledger::new(1_000_000);
            for (later, limits, who, cost) in requests {
                clock.advance(Duration::from_micros(later));
                let key = EncodedKey::new(["ann", "bob", "eve", "joe"][who]).unwrap();
                let check = |limit: &usize| rules[*limit].demand_for(&key, rules[*limit].quota(), cost);
                let checks: Vec<Demand<'_>> = limits.iter().map(check).collect();
                let places: Vec<Place> = checks.iter().map(|check| ledger.place(&check.key)).collect();
                if is_fetched {
                    ledger.fetch(&places);
                }
                let mut outcomes = Vec::new();
                ledger.spend(&checks, &places, crate::Clock::now(&clock), &mut outcomes);
                let spent = store.spend_together(&checks, Intent::Spend, PermitId::NONE);
                prop_assert_eq!(outcomes.as_slice(), spent.outcomes.as_slice());
            }
        }
    }

    #[test]
    fn the_cap_holds() {
        let rule = &rules()[1];
        let mut ledger = Ledger::new(1_000);
        for number in 0..20_000_u64 {
            let key = EncodedKey::new(&number).unwrap();
            let check = rule.demand_for(&key, rule.quota(), 1);
            let place = ledger.place(&check.key);
            ledger.spend(&[check], &[place], Micros::from_secs(1), &mut Vec::new());
            assert!(ledger.keys() <= 1_000);
        }
    }
}
