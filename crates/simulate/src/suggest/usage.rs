//! The usage of one limit, summed up: percentiles of its peaks, the knee, and the value to suggest.

use super::knee::is_steep;
use super::{LimitPeaks, UsageKnee};

/// The percentiles that are tried, in per mille, with their names.
const PERCENTILES: [(usize, &str); 5] = [
    (500, "p50"),
    (900, "p90"),
    (990, "p99"),
    (999, "p99.9"),
    (1_000, "max"),
];
/// The name of the value below the knee.
const KNEE: &str = "knee";
/// The most candidates of a limit: the percentiles and the knee.
pub(super) const CANDIDATES_MAX: usize = PERCENTILES.len() + 1;
/// The minimum number of keys above a percentile for it to be meaningful.
const KEYS_ABOVE_MIN: usize = 10;

/// The usage of one limit.
#[derive(Debug)]
pub(crate) struct UsageProfile<'p> {
    pub(crate) limit: &'p LimitPeaks,
    /// The number of keys.
    pub(crate) keys: usize,
    pub(crate) knee: Option<UsageKnee>,
    /// Values to choose from, in ascending order. Empty if there are no keys.
    pub(crate) candidates: Vec<UsageCandidate>,
    /// The index of the suggested candidate.
    pub(crate) suggested: usize,
    /// Whether p90 rises from p50 as steeply as a knee does.
    pub(crate) is_steep_below: bool,
    /// In ascending order.
    peaks: Vec<u64>,
}

/// A value for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsageCandidate {
    /// `p50` to `max`, or `knee`.
    pub(crate) percentile: &'static str,
    pub(crate) limit: u64,
}

impl<'p> UsageProfile<'p> {
    pub(super) fn new(limit: &'p LimitPeaks, beyond_knee: bool) -> Self {
        let mut peaks: Vec<u64> = limit.keys.values().copied().collect();
        peaks.sort_unstable();

        let mut usage = Self {
            limit,
            keys: peaks.len(),
            knee: UsageKnee::find(&peaks),
            candidates: Vec::new(),
            suggested: 0,
            is_steep_below: false,
            peaks,
        };
        if usage.keys > 0 {
            usage.choose(beyond_knee);
        }
        usage
    }

    /// Lists the candidates and chooses one: the highest percentile with enough keys above it to
    /// tell heavy usage from outliers, or the maximum if there are too few keys, and at most the
    /// value below the knee.
    fn choose(&mut self, beyond_knee: bool) {
        let limits = PERCENTILES.map(|(permille, _)| self.percentile(permille));
        self.is_steep_below = self.keys >= KEYS_ABOVE_MIN && is_steep(limits[0], limits[1]);
        let has_enough_above =
            |permille: usize| self.keys * (1_000 - permille) / 1_000 >= KEYS_ABOVE_MIN;
        let mut suggested = PERCENTILES
            .iter()
            .rposition(|(permille, _)| *permille > 500 && has_enough_above(*permille))
            .unwrap_or(PERCENTILES.len() - 1);

        self.candidates = PERCENTILES
            .iter()
            .zip(limits)
            .map(|((_, percentile), limit)| UsageCandidate { percentile, limit })
            .collect();
        if let Some(knee) = self.knee {
            let limit = knee.below.max(1);
            let at = limits.partition_point(|percentile| *percentile <= limit);
            let candidate = UsageCandidate {
                percentile: KNEE,
                limit,
            };
            self.candidates.insert(at, candidate);

            if suggested >= at {
                suggested = if beyond_knee { suggested + 1 } else { at };
            }
        }
        self.suggested = suggested;
    }

    /// The suggested value. `None` if there are no keys.
    pub(crate) fn suggested(&self) -> Option<UsageCandidate> {
        self.candidates.get(self.suggested).copied()
    }

    /// A percentile of the peaks, at least 1. There must be keys.
    fn percentile(&self, permille: usize) -> u64 {
        let rank = (self.keys * permille).div_ceil(1_000).max(1) - 1;
        // The peak is 0 if all requests have a cost of 0, but a limit must be at least 1.
        self.peaks[rank].max(1)
    }

    /// The number of keys whose peak usage is above a limit.
    pub(crate) fn keys_above(&self, limit: u64) -> u64 {
        (self.keys - self.peaks.partition_point(|peak| *peak <= limit)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{EncodedKey, Limit, Micros};

    fn measured(peaks: impl IntoIterator<Item = u64>) -> LimitPeaks {
        let limit = Limit::sliding_window("a", 1, std::time::Duration::from_secs(60));
        let quota = *limit.validate().unwrap().quota();
        let mut measured = LimitPeaks::new("a".to_owned(), quota, false);
        for (key, peak) in (0_u64..).zip(peaks) {
            measured.record(&EncodedKey::new(&key).unwrap(), peak, Micros::ZERO);
        }
        measured
    }

    fn candidates(usage: &UsageProfile<'_>) -> Vec<(&'static str, u64)> {
        let candidates = usage.candidates.iter();
        candidates.map(|it| (it.percentile, it.limit)).collect()
    }

    #[test]
    fn percentiles_are_peaks_of_keys() {
        let hundred = measured(1..=100);
        let usage = UsageProfile::new(&hundred, false);
        let limits: Vec<u64> = usage.candidates.iter().map(|it| it.limit).collect();
        assert_eq!(limits, [50, 90, 99, 100, 100]);
        assert_eq!(usage.keys_above(90), 10);

        let limits = |peaks: &[u64]| {
            let measured = measured(peaks.iter().copied());
            let usage = UsageProfile::new(&measured, false);
            usage.candidates.first().map(|first| first.limit)
        };
        assert_eq!(
            [limits(&[7]), limits(&[0]), limits(&[])],
            [Some(7), Some(1), None]
        );
    }

    #[test]
    fn the_suggested_percentile_depends_on_the_number_of_keys() {
        for (keys, percentile) in [
            (1, "max"),
            (99, "max"),
            (100, "p90"),
            (1_000, "p99"),
            (10_000, "p99.9"),
        ] {
            let measured = measured(1..=keys);
            let usage = UsageProfile::new(&measured, false);
            let suggested = usage.candidates[usage.suggested].percentile;
            assert_eq!(suggested, percentile, "{keys} keys");
        }
    }

    /// Attackers who are more than one in a hundred own p99. It is suggested only on request.
    #[test]
    fn nothing_beyond_the_knee_is_suggested_unless_asked_for() {
        let attacked = measured((0..2_121).map(|key| if key < 40 { 48 } else { 1 + key % 5 / 4 }));
        for (beyond_knee, suggested) in [(false, ("knee", 2)), (true, ("p99", 48))] {
            let usage = UsageProfile::new(&attacked, beyond_knee);
            let expected = [
                ("p50", 1),
                ("p90", 2),
                ("knee", 2),
                ("p99", 48),
                ("p99.9", 48),
                ("max", 48),
            ];
            assert_eq!(candidates(&usage), expected);
            assert_eq!(candidates(&usage)[usage.suggested], suggested);
        }

        // One heavy key among many: what was suggested is below the knee anyway.
        let one_heavy = measured((1..=1_000).chain([90_000]));
        let usage = UsageProfile::new(&one_heavy, false);
        assert_eq!(candidates(&usage)[usage.suggested], ("p99", 991));
        assert_eq!(usage.knee.map(|knee| knee.keys_above), Some(1));
    }

    #[test]
    fn half_of_the_keys_far_below_the_others_are_noticed() {
        let pages = measured((0..100).map(|key| if key < 60 { 1 } else { 40 }));
        let usage = UsageProfile::new(&pages, false);
        assert!(usage.is_steep_below && usage.knee.is_none());
    }
}
