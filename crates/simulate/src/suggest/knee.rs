//! The knee of a limit's usage: where a few keys use many times what all others use.

/// Fewer keys than this have no knee.
const KEYS_MIN: usize = 10;
/// The knee is looked for among the keys above this share of all keys, one in ten.
const TAIL_PART: usize = 10;
/// Halving the number of keys must multiply their least peak by this.
const RISE_MIN: u64 = 3;
/// The least rise in units, as 1 and 3 requests are both few.
const RISE_UNITS_MIN: u64 = 5;

/// Where the distribution of the peaks turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageKnee {
    /// The highest peak below the knee.
    pub(crate) below: u64,
    /// The lowest peak above it.
    pub(crate) above: u64,
    /// The number of keys above it.
    pub(crate) keys_above: usize,
}

impl UsageKnee {
    /// Finds the knee in ascending peaks.
    ///
    /// The heaviest tenth of the keys is halved again and again. The knee is in the first half that
    /// starts at three times the peak at which its whole started, at the widest gap between two
    /// neighbours there. In a smooth tail, even one as heavy as that of Zipf's law, a half starts
    /// at twice the peak of its whole.
    pub(super) fn find(peaks: &[u64]) -> Option<Self> {
        if peaks.len() < KEYS_MIN {
            return None;
        }

        let last = peaks.len() - 1;
        let mut keys_above = peaks.len() / TAIL_PART;
        while keys_above > 0 {
            let (from, to) = (last - keys_above, last - keys_above / 2);
            if is_steep(peaks[from], peaks[to]) {
                return Some(widest_gap(peaks, from, to));
            }
            keys_above /= 2;
        }
        None
    }
}

/// Whether a rise between two peaks is more than that of a smooth distribution.
pub(super) fn is_steep(lower: u64, upper: u64) -> bool {
    upper >= lower.max(1).saturating_mul(RISE_MIN) && upper - lower >= RISE_UNITS_MIN
}

/// The gap between neighbours with the largest ratio, of several the highest. `from` is below
/// `to`, and its peak is lower.
fn widest_gap(peaks: &[u64], from: usize, to: usize) -> UsageKnee {
    let is_wider = |one: usize, other: usize| {
        let ratio = |numerator: usize, denominator: usize| {
            u128::from(peaks[numerator]) * u128::from(peaks[denominator].max(1))
        };
        ratio(one + 1, other) >= ratio(other + 1, one)
    };
    let widest = (from..to).fold(
        from,
        |widest, at| {
            if is_wider(at, widest) { at } else { widest }
        },
    );

    UsageKnee {
        below: peaks[widest],
        above: peaks[widest + 1],
        keys_above: peaks.len() - 1 - widest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee(mut peaks: Vec<u64>) -> Option<(u64, u64, usize)> {
        peaks.sort_unstable();
        UsageKnee::find(&peaks).map(|knee| (knee.below, knee.above, knee.keys_above))
    }

    /// 2,081 visitors who log in up to five times, and 40 attackers.
    #[test]
    fn attackers_are_above_the_knee() {
        let visitors = || (0..2_081).map(|at| [1, 1, 1, 2, 2, 3, 5][at % 7]);
        let attackers = |lowest: u64| (0..40).map(move |at| lowest + at % 9);
        assert_eq!(
            knee(visitors().chain(attackers(44)).collect()),
            Some((5, 44, 40))
        );
        // Slow ones do not hide behind fast ones.
        let ramp = (0..40).map(|at| 16 + at * 2);
        assert_eq!(knee(visitors().chain(ramp).collect()), Some((5, 16, 40)));
        // A single one among few visitors.
        assert_eq!(knee(vec![1, 2, 2, 3, 1, 2, 1, 1, 2, 48]), Some((3, 48, 1)));
    }

    #[test]
    fn smooth_usage_has_no_knee() {
        assert_eq!(knee((1..=1_000).collect()), None);
        // Zipf's law: the heaviest key uses twice what the second one does.
        assert_eq!(knee((1..=10_000).map(|rank| 30_000 / rank).collect()), None);
        assert_eq!(knee((0..1_000).map(|at| 1 + at % 4).collect()), None);
        // Half of all visitors load one page, the others a page and its pictures.
        assert_eq!(knee((0..1_000).map(|at| [1, 40][at % 2]).collect()), None);
        assert_eq!(knee(vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 4]), None);
        assert_eq!(knee(vec![1, 99]), None);
        assert_eq!(knee(vec![]), None);
    }

    #[test]
    fn extreme_peaks_do_not_overflow() {
        let mut peaks = vec![0; 20];
        peaks.push(u64::MAX);
        assert_eq!(knee(peaks), Some((0, u64::MAX, 1)));
        assert_eq!(knee(vec![u64::MAX; 20]), None);
    }
}
