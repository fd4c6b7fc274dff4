//! How much of what reservations have charged to a bucket is still missing from it.
//!
//! If a reservation had charged less, the bucket would have been full earlier, and from then on
//! nothing of the difference would be left. So what a reservation may return is bounded by its
//! *low-water mark*: the smallest backlog of the bucket since the reservation was charged. With
//! that bound the bucket is as if the smaller amount had been charged in the first place.
//!
//! Only operations on reservations, and refunds, look at the marks. What other requests charged in
//! between counts as charged at the end of that time, when it helps least: a mark may be too low,
//! but never too high.

use super::gcra::{BucketState, Gcra};
use crate::time::Micros;

/// The most marks of a bucket. Beyond that, the two that differ least are merged into the lower.
const MARKS_MAX: usize = 32;

/// The low-water marks of the reservations of one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LowWaterMarks {
    /// The bucket when the marks were last updated.
    state: BucketState,
    /// The rate's `per` and the span with which the bucket was used then. A backlog that was
    /// measured in other numbers counts as none.
    numbers: (u64, Micros),
    /// How many reservations have been made.
    made: u64,
    /// Numbers of reservations and marks, both strictly ascending. A mark is that of all
    /// reservations up to its number and after the number before, in `per`-ths of a microsecond.
    marks: Vec<(u64, u128)>,
}

impl LowWaterMarks {
    /// Lowers the marks to the backlog that is certainly left at `now`. Must come before every
    /// other operation at this time.
    pub(crate) fn observe(&mut self, gcra: &Gcra, now: Micros) {
        let is_comparable = self.numbers == (gcra.rate().0, gcra.span);
        let low = if is_comparable {
            gcra.backlog_left(self.state, now)
        } else {
            0
        };
        self.lower(low);
    }

    /// Lowers the marks to this backlog. It is the mark of the reservations since the last one.
    fn lower(&mut self, low: u128) {
        while self.marks.last().is_some_and(|(_, mark)| *mark >= low) {
            self.marks.pop();
        }
        let newest = self.marks.last().map_or(0, |(number, _)| *number);
        if newest < self.made {
            self.marks.push((self.made, low));
        }
        if self.marks.len() > MARKS_MAX {
            self.merge_nearest();
        }
    }

    /// The number of a new reservation, after which the bucket was recorded. Its mark is never
    /// higher than the backlog now, even if the clock goes back a little.
    pub(crate) fn add(&mut self, gcra: &Gcra, now: Micros) -> u64 {
        self.made += 1;
        self.lower(gcra.backlog_left(self.state, now));
        self.made
    }

    /// How much backlog a reservation returns, of `backlog`. What it returns is as if it had never
    /// been charged, so the marks since then are lower by that.
    pub(crate) fn take(&mut self, number: u64, backlog: u128) -> u128 {
        let first = self.marks.partition_point(|(up_to, _)| *up_to < number);
        let Some((_, mark)) = self.marks.get(first) else {
            return 0;
        };

        let taken = backlog.min(*mark);
        let lowest = mark - taken;
        for (_, mark) in &mut self.marks[first..] {
            *mark -= taken;
        }
        let lower = self.marks.partition_point(|(_, mark)| *mark < lowest);
        self.marks.drain(lower.min(first)..first);
        taken
    }

    /// Remembers the bucket as it is now.
    pub(crate) fn record(&mut self, gcra: &Gcra, state: BucketState) {
        self.state = state;
        self.numbers = (gcra.rate().0, gcra.span);
    }

    fn merge_nearest(&mut self) {
        let gap = |index: &usize| self.marks[index + 1].1 - self.marks[*index].1;
        let nearest = (0..self.marks.len() - 1).min_by_key(gap).unwrap_or(0);
        self.marks[nearest].0 = self.marks[nearest + 1].0;
        self.marks.remove(nearest + 1);
    }
}

#[cfg(test)]
mod tests;
