//! What happened when, in a bounded number of equal stretches: they grow as the log goes on.

use tollgate::Micros;

/// The most stretches.
const STRETCHES: usize = 360;
/// How long they are at first.
const WIDTH: u64 = 1_000_000;

/// What was let through and what was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
}

/// Several series of counts over the same stretches of time.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The length of a stretch.
    width: u64,
    /// How many of them lie before the first that is kept.
    base: u64,
    /// How many are in use.
    used: usize,
    /// The moments of the stretch that was looked up last, and its place.
    current: (std::ops::Range<u64>, usize),
    series: Vec<Box<[Counts]>>,
}

impl Timeline {
    pub(crate) fn new(series: usize) -> Self {
        let empty = vec![Counts::default(); STRETCHES].into_boxed_slice();
        Self {
            width: WIDTH,
            base: 0,
            used: 0,
            current: (0..0, 0),
            series: vec![empty; series],
        }
    }

    /// The stretch of a moment, which is never before that of the last one.
    #[inline]
    pub(crate) fn at(&mut self, time: Micros) -> usize {
        if self.current.0.contains(&time.get()) {
            self.current.1
        } else {
            self.look_up(time.get())
        }
    }

    fn look_up(&mut self, time: u64) -> usize {
        if self.used == 0 {
            self.base = time / self.width;
        }
        let mut place = (time / self.width).saturating_sub(self.base);
        while place >= STRETCHES as u64 {
            self.halve();
            place = (time / self.width).saturating_sub(self.base);
        }
        let start = (self.base + place) * self.width;
        let place = usize::try_from(place).unwrap_or_default();
        self.used = self.used.max(place + 1);
        self.current = (start..start + self.width, place);
        place
    }

    /// Makes two stretches one, everywhere.
    fn halve(&mut self) {
        let (old, new) = (self.base, self.base / 2);
        let place =
            |at: usize| usize::try_from(u64::midpoint(old, at as u64) - new).unwrap_or_default();
        for series in &mut self.series {
            for at in 0..self.used {
                let Counts { allowed, refused } = std::mem::take(&mut series[at]);
                let sum = &mut series[place(at)];
                sum.allowed += allowed;
                sum.refused += refused;
            }
        }
        self.used = if self.used == 0 {
            0
        } else {
            place(self.used - 1) + 1
        };
        (self.base, self.width) = (new, self.width * 2);
    }

    #[inline]
    pub(crate) fn count(&mut self, series: usize, at: usize, is_allowed: bool) {
        let counts = &mut self.series[series][at];
        if is_allowed {
            counts.allowed += 1;
        } else {
            counts.refused += 1;
        }
    }

    /// When the first stretch begins.
    pub(crate) const fn start(&self) -> Micros {
        Micros::new(self.base * self.width)
    }

    /// How long each stretch is.
    pub(crate) const fn width(&self) -> Micros {
        Micros::new(self.width)
    }

    /// The counts of a series, stretch by stretch.
    pub(crate) fn series(&self, series: usize) -> &[Counts] {
        &self.series[series][..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_nothing_moves_to_another_time_as_stretches_grow() {
        for start in [0, 7, 1_791_665_736] {
            let mut timeline = Timeline::new(2);
            let times: Vec<u64> = (0..5_000).map(|step| start + step * step / 700).collect();
            for secs in &times {
                let at = timeline.at(Micros::from_secs(*secs));
                timeline.count(1, at, secs % 3 > 0);
            }
            let width = timeline.width().get() / 1_000_000;
            assert!(width.is_power_of_two() && width > 1);
            assert!(timeline.series(1).len() <= STRETCHES);
            let mut from = timeline.start().get() / 1_000_000;
            for counts in timeline.series(1) {
                let here = || {
                    times
                        .iter()
                        .filter(|secs| (from..from + width).contains(secs))
                };
                let refused = here().filter(|secs| **secs % 3 == 0).count() as u64;
                assert_eq!(
                    *counts,
                    Counts {
                        allowed: here().count() as u64 - refused,
                        refused
                    },
                    "{from}"
                );
                from += width;
            }
            assert!(
                timeline
                    .series(0)
                    .iter()
                    .all(|counts| *counts == Counts::default())
            );
        }
    }
}
