//! Counts over time, in a bounded number of steps of equal length. The steps get longer as the log
//! goes on.

use tollgate::Micros;

/// The maximum number of steps.
const STEPS_MAX: usize = 360;
const SECOND: u64 = 1_000_000;
/// The lengths of steps in seconds, each a multiple of the one before: people think in seconds,
/// minutes, hours and days. Longer logs have steps of several weeks.
const STEP_SECONDS: [u64; 13] = [
    1, 2, 10, 30, 60, 120, 600, 1_800, 3_600, 7_200, 21_600, 86_400, 604_800,
];

/// The requests of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepCounts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

/// Several series of counts over the same steps.
#[derive(Clone, Debug)]
pub(crate) struct SimulationTimeline {
    /// The length of a step in microseconds.
    step_length: u64,
    /// The number of steps between 1970 and the first one stored.
    base: u64,
    /// The number of steps in use.
    used: usize,
    /// The time range of the step that was looked up last, and its index.
    current: (std::ops::Range<u64>, usize),
    series: Vec<Box<[StepCounts]>>,
}

impl SimulationTimeline {
    pub(crate) fn new(series: usize) -> Self {
        let empty = vec![StepCounts::default(); STEPS_MAX].into_boxed_slice();
        Self {
            step_length: STEP_SECONDS[0] * SECOND,
            base: 0,
            used: 0,
            current: (0..0, 0),
            series: vec![empty; series],
        }
    }

    /// The index of the step that contains a time. The times must never go back.
    #[inline]
    pub(crate) fn step_at(&mut self, time: Micros) -> usize {
        if self.current.0.contains(&time.get()) {
            self.current.1
        } else {
            self.look_up(time.get())
        }
    }

    fn look_up(&mut self, time: u64) -> usize {
        if self.used == 0 {
            self.base = time / self.step_length;
        }

        let mut step = (time / self.step_length).saturating_sub(self.base);
        while step >= STEPS_MAX as u64 {
            self.merge_steps();
            step = (time / self.step_length).saturating_sub(self.base);
        }

        let start = (self.base + step) * self.step_length;
        let step = usize::try_from(step).unwrap_or_default();
        self.used = self.used.max(step + 1);
        self.current = (start..start + self.step_length, step);
        step
    }

    /// Merges neighbouring steps into steps of the next length. At least one step is in use.
    fn merge_steps(&mut self) {
        let longer = STEP_SECONDS
            .iter()
            .map(|secs| secs * SECOND)
            .find(|length| *length > self.step_length)
            .unwrap_or(self.step_length * 2);
        let factor = longer / self.step_length;
        let (old, new) = (self.base, self.base / factor);
        let merged =
            |step: usize| usize::try_from((old + step as u64) / factor - new).unwrap_or_default();

        for series in &mut self.series {
            for step in 0..self.used {
                let StepCounts { allowed, denied } = std::mem::take(&mut series[step]);
                let sum = &mut series[merged(step)];
                sum.allowed += allowed;
                sum.denied += denied;
            }
        }
        self.used = merged(self.used - 1) + 1;
        (self.base, self.step_length) = (new, longer);
    }

    #[inline]
    pub(crate) fn count(&mut self, series: usize, step: usize, is_allowed: bool) {
        let counts = &mut self.series[series][step];
        counts.allowed += u64::from(is_allowed);
        counts.denied += u64::from(!is_allowed);
    }

    /// The start of the first step.
    pub(crate) const fn start(&self) -> Micros {
        Micros::new(self.base * self.step_length)
    }

    /// The length of a step.
    pub(crate) const fn step_length(&self) -> Micros {
        Micros::new(self.step_length)
    }

    /// The counts of a series, step by step.
    pub(crate) fn series(&self, series: usize) -> &[StepCounts] {
        &self.series[series][..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_a_multiple_of_the_one_before() {
        for pair in STEP_SECONDS.windows(2) {
            assert!(pair[1] > pair[0] && pair[1] % pair[0] == 0, "{pair:?}");
        }
        // Two hundred years still fit.
        let mut timeline = SimulationTimeline::new(1);
        for day in 0..365 * 200 {
            let step = timeline.step_at(Micros::from_secs(day * 86_400));
            timeline.count(0, step, true);
        }
        assert!(timeline.series(0).len() <= STEPS_MAX);
        let allowed: u64 = timeline.series(0).iter().map(|step| step.allowed).sum();
        assert_eq!(allowed, 365 * 200);
    }

    #[test]
    fn counts_stay_in_their_step_as_steps_are_merged() {
        for start in [0, 7, 1_791_665_736] {
            let mut timeline = SimulationTimeline::new(2);
            let times: Vec<u64> = (0..5_000).map(|step| start + step * step / 700).collect();
            for secs in &times {
                let at = timeline.step_at(Micros::from_secs(*secs));
                timeline.count(1, at, secs % 3 > 0);
            }
            let width = timeline.step_length().get() / 1_000_000;
            assert_eq!(width, 120);
            assert!(timeline.series(1).len() <= STEPS_MAX);
            let mut from = timeline.start().get() / 1_000_000;
            for counts in timeline.series(1) {
                let here = || {
                    times
                        .iter()
                        .filter(|secs| (from..from + width).contains(secs))
                };
                let denied = here().filter(|secs| **secs % 3 == 0).count() as u64;
                assert_eq!(
                    *counts,
                    StepCounts {
                        allowed: here().count() as u64 - denied,
                        denied
                    },
                    "{from}"
                );
                from += width;
            }
            assert!(
                timeline
                    .series(0)
                    .iter()
                    .all(|counts| *counts == StepCounts::default())
            );
        }
    }
}
