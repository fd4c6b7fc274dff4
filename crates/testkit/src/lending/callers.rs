//! The instances that call a store about one counter: how many they are, and when their turns come.

use tollgate::store::lease::{LeaseRequest, LeaseTerms, TURN_MAX};

use super::counter::at;

/// The latest turn and the number of instances, which is counted in slices of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Callers {
    slice: i128,
    in_slice: i128,
    before: i128,
    turn: i128,
}

impl Callers {
    /// Counts the instance that calls now.
    pub(super) fn count(&mut self, request: &LeaseRequest, terms: &LeaseTerms, now: i128) {
        let (age, long) = (now - self.slice, at(terms.long));
        if !(0..long).contains(&age) {
            let is_recent = (0..2 * long).contains(&age);
            self.before = if is_recent { self.in_slice } else { 0 };
            (self.slice, self.in_slice) = (now, 0);
        }
        if at(request.called_at) < self.slice {
            self.in_slice += 1;
        }
    }

    /// The units that an instance gets of those that are left, and the length of their lease.
    pub(super) fn grant(
        &self,
        request: &LeaseRequest,
        terms: &LeaseTerms,
        left: i128,
    ) -> (i128, i128) {
        let share = left / self.in_slice.max(self.before).max(1);
        let by_share = share.min(request.wanted.into());
        let by_need = left.min(request.needed.into());
        if by_need > by_share {
            (by_need, at(terms.brief))
        } else {
            (by_share, at(terms.long))
        }
    }

    /// Assigns the next turn. Returns the time until then.
    pub(super) fn assign_turn(&mut self, terms: &LeaseTerms, now: i128) -> i128 {
        let next = self.turn.max(now) + at(terms.turn);
        self.turn = next.min(now + at(TURN_MAX));
        self.turn - now
    }
}
