//! The permits of one key of a concurrency limit. Acquiring, releasing and counting them takes
//! about the same time whether there are ten or fifty thousand.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use super::outcome::CLOCK_SLACK;
use crate::time::Micros;

/// With more permits than this, they are found by an index of their ids. With fewer, reading all
/// of them is as fast and needs less memory.
const UNINDEXED_MAX: usize = 64;

/// Identifies a permit among all permits of all replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitId(u128);

impl PermitId {
    /// The id for requests that acquire no permit.
    pub const NONE: Self = Self(0);

    /// A permit with this number. It must be unguessable where untrusted clients can release
    /// permits.
    pub const fn new(id: u128) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// Hides the number, which lets anyone release the permit.
impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitId(..)")
    }
}

/// One acquired permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitEntry {
    pub(crate) id: PermitId,
    pub(crate) cost: u64,
    /// The timeout with which the permit was acquired or renewed. The limit's own timeout may have
    /// changed since.
    pub(crate) timeout: Micros,
    pub(crate) expires: Micros,
}

impl PermitEntry {
    /// A permit whose timeout starts now.
    pub(crate) fn new(id: PermitId, cost: u64, timeout: Micros, now: Micros) -> Self {
        Self {
            id,
            cost,
            timeout,
            expires: now.after(timeout),
        }
    }
}

/// The permits of one key, soonest to expire first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    /// By expiry, and in the order of insertion where that is equal. A released permit stays as a
    /// gap, except at both ends; there are about as many gaps as permits at most.
    entries: VecDeque<NumberedPermit>,
    /// The id, expiry and number of every permit; empty while there are few of them.
    index: BTreeSet<(u128, Micros, u64)>,
    /// The number of gaps in `entries`.
    gaps: usize,
    /// Units in flight.
    sum: u64,
    /// No permit was acquired or renewed later than this.
    latest_grant: Micros,
    /// The number of the next permit.
    next_number: u64,
}

/// A permit, numbered in the order of insertion. Cost 0 marks a gap.
#[derive(Clone, Copy, Debug)]
struct NumberedPermit {
    entry: PermitEntry,
    number: u64,
}

impl NumberedPermit {
    const fn is_gap(&self) -> bool {
        self.entry.cost == 0
    }

    const fn position(&self) -> (Micros, u64) {
        (self.entry.expires, self.number)
    }

    const fn index_entry(&self) -> (u128, Micros, u64) {
        (self.entry.id.get(), self.entry.expires, self.number)
    }
}

impl Permits {
    /// Drops expired permits. A permit from before the clock was set back then expires one timeout
    /// from now.
    pub(crate) fn prune(&mut self, now: Micros) {
        if self.latest_grant.since(now) > CLOCK_SLACK {
            self.shorten(now);
        }

        let is_expired = |permit: &NumberedPermit| permit.entry.expires <= now;
        while self.entries.front().is_some_and(is_expired) {
            self.vacate(0);
            self.tidy();
        }
    }

    /// Units in flight.
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    /// The number of permits.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.gaps
    }

    /// The memory of the permits, in units of one permit of a key that has few.
    pub(crate) fn weight(&self) -> usize {
        self.entries.len() + self.index.len()
    }

    /// The permits, soonest to expire first.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = PermitEntry> + Clone + '_ {
        self.held().map(|permit| permit.entry)
    }

    /// Adds a permit that fits. One without units is not added.
    pub(crate) fn insert(&mut self, entry: PermitEntry) {
        if entry.cost == 0 {
            return;
        }

        let permit = NumberedPermit {
            entry,
            number: self.next_number,
        };
        self.next_number += 1;
        self.sum = self.sum.saturating_add(entry.cost);
        self.latest_grant = self.latest_grant.max(entry.expires.since(entry.timeout));

        // Permits with the same timeout expire in the order of their grants, so this is the end.
        let at = self.first_from(permit.position());
        self.entries.insert(at, permit);

        if !self.index.is_empty() {
            self.index.insert(permit.index_entry());
        } else if self.len() > UNINDEXED_MAX {
            self.index = self.held().map(NumberedPermit::index_entry).collect();
        }
    }

    /// Removes a permit; `None` when it has expired or was released before. Of several with the
    /// same id, the soonest to expire.
    pub(crate) fn remove(&mut self, id: PermitId) -> Option<PermitEntry> {
        let at = self.find(id)?;
        let entry = self.entries[at].entry;
        self.vacate(at);
        self.tidy();
        Some(entry)
    }

    /// The moment at which the last permit expires.
    pub(crate) fn empty_at(&self) -> Micros {
        let last = self.entries.back();
        last.map_or(Micros::ZERO, |permit| permit.entry.expires)
    }

    /// The entries without the gaps.
    fn held(&self) -> impl DoubleEndedIterator<Item = &NumberedPermit> + Clone {
        self.entries.iter().filter(|permit| !permit.is_gap())
    }

    /// The index of the first entry that is not before `position`.
    fn first_from(&self, position: (Micros, u64)) -> usize {
        self.entries
            .partition_point(|permit| permit.position() < position)
    }

    fn find(&self, id: PermitId) -> Option<usize> {
        if self.index.is_empty() {
            let is_searched = |permit: &NumberedPermit| permit.entry.id == id && !permit.is_gap();
            return self.entries.iter().position(is_searched);
        }

        let first = (id.get(), Micros::ZERO, 0);
        let (found, expires, number) = *self.index.range(first..).next()?;
        (found == id.get()).then(|| self.first_from((expires, number)))
    }

    /// Turns a permit into a gap.
    fn vacate(&mut self, at: usize) {
        let permit = &mut self.entries[at];
        self.index.remove(&permit.index_entry());
        self.sum = self.sum.saturating_sub(permit.entry.cost);
        permit.entry.cost = 0;
        self.gaps += 1;
    }

    /// Drops the gaps at both ends, and all of them when they outnumber the permits.
    fn tidy(&mut self) {
        while self.entries.front().is_some_and(NumberedPermit::is_gap) {
            self.entries.pop_front();
            self.gaps -= 1;
        }
        while self.entries.back().is_some_and(NumberedPermit::is_gap) {
            self.entries.pop_back();
            self.gaps -= 1;
        }

        if self.gaps > self.len() + UNINDEXED_MAX {
            self.entries.retain(|permit| !permit.is_gap());
            self.entries.shrink_to_fit();
            self.gaps = 0;
        }
        if self.len() < UNINDEXED_MAX / 2 {
            self.index.clear();
        }
    }

    /// The clock was set back: permits that were granted later than now expire one timeout from
    /// now.
    fn shorten(&mut self, now: Micros) {
        let mut entries: Vec<PermitEntry> = self.entries().collect();
        for entry in &mut entries {
            let latest = now.after(entry.timeout);
            if entry.expires.since(latest) > CLOCK_SLACK {
                entry.expires = latest;
            }
        }
        entries.sort_by_key(|entry| entry.expires);

        *self = Self::default();
        entries.into_iter().for_each(|entry| self.insert(entry));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a key of a concurrency limit can be asked for.
    #[derive(Clone, Debug)]
    enum PermitAct {
        Insert {
            id: u128,
            cost: u64,
            timeout: u64,
        },
        Remove {
            id: u128,
        },
        Prune,
        /// Moves the clock, mostly forward.
        Step {
            seconds: i64,
        },
    }

    fn permit_act() -> impl Strategy<Value = PermitAct> {
        prop_oneof![
            6 => (0..400_u128, 1..4_u64, 1..40_u64)
                .prop_map(|(id, cost, timeout)| PermitAct::Insert { id, cost, timeout }),
            4 => (0..400_u128).prop_map(|id| PermitAct::Remove { id }),
            1 => Just(PermitAct::Prune),
            1 => (-5..3_i64).prop_map(|seconds| PermitAct::Step { seconds }),
        ]
    }

    /// The same by a list that is searched and sorted every time.
    #[derive(Default)]
    struct PlainPermits(Vec<PermitEntry>);

    impl PlainPermits {
        fn prune(&mut self, now: Micros) {
            self.0.retain_mut(|entry| {
                let latest = now.after(entry.timeout);
                if entry.expires.since(latest) > CLOCK_SLACK {
                    entry.expires = latest;
                }
                entry.expires > now
            });
            self.0.sort_by_key(|entry| entry.expires);
        }

        fn remove(&mut self, id: PermitId) -> Option<PermitEntry> {
            let at = self.0.iter().position(|entry| entry.id == id)?;
            Some(self.0.remove(at))
        }
    }

    proptest! {
        /// Enough permits to be indexed, released in any order, on a clock that is also set back.
        #[test]
        fn permits_equal_a_plain_list(acts in proptest::collection::vec(permit_act(), 1..900)) {
            let (mut permits, mut plain) = (Permits::default(), PlainPermits::default());
            let mut now = Micros::from_secs(1_000_000);

            for act in acts {
                match act {
                    PermitAct::Insert { id, cost, timeout } => {
                        let timeout = Micros::from_secs(timeout);
                        let entry = PermitEntry::new(PermitId::new(id), cost, timeout, now);
                        permits.insert(entry);
                        plain.0.push(entry);
                        plain.0.sort_by_key(|entry| entry.expires);
                    }
                    PermitAct::Remove { id } => {
                        let id = PermitId::new(id);
                        prop_assert_eq!(permits.remove(id), plain.remove(id));
                    }
                    PermitAct::Prune => {
                        permits.prune(now);
                        plain.prune(now);
                    }
                    PermitAct::Step { seconds } => {
                        let moved = Micros::from_secs(seconds.unsigned_abs());
                        now = if seconds < 0 { now.since(moved) } else { now.after(moved) };
                    }
                }

                prop_assert!(permits.entries().eq(plain.0.iter().copied()));
                prop_assert_eq!(permits.len(), plain.0.len());
                prop_assert_eq!(permits.sum(), plain.0.iter().map(|entry| entry.cost).sum::<u64>());
                let last = plain.0.last().map_or(Micros::ZERO, |entry| entry.expires);
                prop_assert_eq!(permits.empty_at(), last);
                prop_assert!(permits.weight() <= 3 * permits.len() + 2 * UNINDEXED_MAX);
            }
        }
    }

    #[test]
    fn memory_is_freed_when_permits_are_released() {
        let mut permits = Permits::default();
        let (timeout, now) = (Micros::from_secs(60), Micros::from_secs(1));
        for id in 0..10_000 {
            permits.insert(PermitEntry::new(PermitId::new(id), 1, timeout, now));
        }

        // The first and the last stay, so that no gap is at an end.
        for id in 1..9_999 {
            assert!(permits.remove(PermitId::new(id)).is_some());
        }

        assert_eq!((permits.len(), permits.sum()), (2, 2));
        assert!(permits.entries.capacity() <= 2 * UNINDEXED_MAX + 2);
        assert!(permits.index.is_empty());
    }
}
