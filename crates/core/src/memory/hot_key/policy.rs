//! When a hot key is split, and into how much.

use std::thread::available_parallelism;

use crate::time::Micros;

/// The most stripes of a hot key.
const STRIPES_MAX: usize = 64;

/// Every number of the mechanism.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SplitPolicy {
    /// How often a key finds its lock held by another thread before it is hot.
    pub(super) contentions_min: u32,
    /// The number of stripes, a power of two.
    pub(super) stripes: usize,
    /// How many times the units of all stripes must be left besides them.
    reserve: u64,
    /// The fewest and the most units of a stripe.
    units_min: u64,
    units_max: u64,
    /// The shortest time for which a split is worthwhile.
    pub(super) length_min: Micros,
}

impl SplitPolicy {
    /// Every key is hot and split from the start, with whatever is left, for tests.
    pub(in super::super) const EAGER: Self = Self {
        contentions_min: 0,
        stripes: 2,
        reserve: 0,
        units_min: 1,
        units_max: 4,
        length_min: Micros::ZERO,
    };

    /// True when keys are hot without contention.
    pub(super) const fn is_eager(&self) -> bool {
        self.contentions_min == 0
    }

    /// The units of a stripe while `remaining` units are left: a power of two, so that the stripes
    /// of a budget that is being spent shrink seldom. `None` when too little is left.
    pub(super) fn units(&self, remaining: u64) -> Option<u64> {
        let parts = (self.reserve * self.stripes as u64).saturating_add(1);
        let units = (remaining / parts).checked_ilog2()?;
        let units = (1 << units).min(self.units_max);
        (units >= self.units_min).then_some(units)
    }

    /// True when `remaining` units are enough besides stripes of `units`.
    pub(super) fn has_reserve(&self, remaining: u64, units: u64) -> bool {
        remaining / (self.stripes as u64 * units) >= self.reserve
    }
}

/// Twice as many stripes as the machine has cores, because several threads may have one stripe. All
/// stripes together hold at most a sixteenth of what is left besides them.
impl Default for SplitPolicy {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            contentions_min: 64,
            stripes: (2 * cores).next_power_of_two().min(STRIPES_MAX),
            reserve: 16,
            units_min: 8,
            units_max: 1_024,
            length_min: Micros::new(1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_leave_a_reserve_and_end_with_it() {
        let policy = SplitPolicy {
            stripes: 4,
            ..SplitPolicy::default()
        };
        assert_eq!(policy.units(0), None);
        assert_eq!(policy.units(65 * 8 - 1), None);
        assert_eq!(policy.units(65 * 8), Some(8));
        assert_eq!(policy.units(65 * 1_000), Some(512));
        assert_eq!(policy.units(u64::MAX), Some(1_024));

        for remaining in [520, 1_000, 10_000, 1 << 40] {
            let units = policy.units(remaining).unwrap();
            assert!(policy.has_reserve(remaining - units, units), "{remaining}");
        }
        assert!(!policy.has_reserve(64 * 8 - 1, 8));
    }
}
