//! How a shard forgets: what time has made worthless, and at the cap what changes least.

use super::budget::Budget;
use super::fingerprint::Fingerprint;
use super::shard::Shard;
use super::slot::{Slot, Usage};
use crate::algorithm::CLOCK_SLACK;
use crate::time::Micros;

/// Whether a shard may forget an offender, a key that has used up its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offenders {
    /// They stay.
    Spare,
    /// One may go, if there is nothing else.
    LastResort,
}

impl Shard {
    /// Drops what is as good as absent, and memory that is no longer needed.
    pub(super) fn sweep(&mut self, now: Micros, budget: &Budget) {
        // Another thread may have read the clock slightly earlier and not have had its turn yet.
        let now = now.since(CLOCK_SLACK);
        let table = self.table();
        if table.is_sparse() || table.iter().any(|slot| slot.is_spent(now)) {
            self.retain(budget, |slot| !slot.is_spent(now));
        }
    }

    /// Forgets the keys with the most budget left, an eighth of the shard at a time so that the
    /// cost of looking is shared. Whatever goes has at least as much left as anything that stays;
    /// among equals chance decides, not the place in the table, which would clump it. The key that
    /// needs the room never goes for it: a large log would make room by forgetting itself. True
    /// when something went.
    pub(super) fn evict(
        &mut self,
        needy: Fingerprint,
        now: Micros,
        budget: &Budget,
        offenders: Offenders,
    ) -> bool {
        let turn = self.next_turn();
        let rank = |slot: &Slot| (slot.usage(now), slot.print().low.wrapping_mul(turn | 1));
        let others = self.table().iter().filter(|slot| slot.print() != needy);
        let mut ranks: Vec<(Usage, u64)> = others.map(rank).collect();
        let Some(least) = ranks.iter().copied().min() else {
            return false;
        };
        if least.0 >= Usage::OFFENDER && offenders == Offenders::Spare {
            return false;
        }
        let share = ranks.len() / 8;
        let bound = *ranks.select_nth_unstable(share).1;
        let last_to_go = if least.0 >= Usage::OFFENDER {
            least
        } else {
            bound.min((Usage::OFFENDER, 0))
        };
        self.retain(budget, |slot| {
            slot.print() == needy || rank(slot) > last_to_go
        });
        true
    }

    fn retain(&mut self, budget: &Budget, mut keep: impl FnMut(&Slot) -> bool) {
        let mut dropped = Vec::new();
        self.table().rebuild(|slot| {
            let kept = keep(slot);
            if !kept {
                dropped.push(**slot);
            }
            kept
        });
        let sides: usize = dropped.iter().map(|slot| self.drop_side(slot)).sum();
        budget.give_back(dropped.len() + sides);
    }
}
