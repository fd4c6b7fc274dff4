//! A bound on the lines of each second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::Micros;

/// The bits of the word that count lines; the others are the second.
const COUNT_BITS: u32 = 24;

/// Counts the lines of the current second. Without a lock, and when the bound is reached without a
/// write: a flood of denials only reads.
#[derive(Debug)]
pub(super) struct LineBudget {
    lines_max: u64,
    /// The second, and the lines taken in it.
    state: AtomicU64,
}

impl LineBudget {
    /// A budget of at most 2^24 - 1 lines per second.
    pub(super) fn new(lines_max: u32) -> Self {
        Self {
            lines_max: u64::from(lines_max).min((1 << COUNT_BITS) - 1),
            state: AtomicU64::new(0),
        }
    }

    /// Takes a line of the current second, if one is left. A time before the latest second counts
    /// for that one, unless the clock was set back.
    pub(super) fn try_take(&self, now: Micros) -> bool {
        /// Threads read the clock at most this many seconds apart.
        const LATE_MAX: u64 = 2;

        let second = now.get() / 1_000_000;
        let mut state = self.state.load(Relaxed);
        loop {
            let (latest, taken) = (state >> COUNT_BITS, state & ((1 << COUNT_BITS) - 1));
            let is_current = second <= latest && latest - second <= LATE_MAX;
            if is_current && taken >= self.lines_max {
                return false;
            }

            let next = if is_current {
                state + 1
            } else {
                (second << COUNT_BITS) | 1
            };
            match self
                .state
                .compare_exchange_weak(state, next, Relaxed, Relaxed)
            {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_lines() {
        let budget = LineBudget::new(3);
        let at = |millis: u64| budget.try_take(Micros::from_millis(1_800_000_000_000 + millis));
        let taken = |millis: u64| (0..10).filter(|_| at(millis)).count();
        assert_eq!(taken(0), 3);
        assert_eq!(taken(999), 0);
        assert_eq!(taken(1_000), 3);
        assert_eq!(taken(500), 0, "a late thread takes no line of the past");
        assert_eq!(taken(7_000), 3);
        assert_eq!(taken(1_000), 3, "the clock was set back");
    }
}
