//! The course of a load: as many steps for a second as for a month.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::micros;
use crate::report::Timeline;

/// Into how many steps it is cut.
const STEPS: u32 = 60;
/// An hour is as long as forever here.
const LATENCY_MAX_US: u64 = 3_600_000_000;

#[derive(Debug)]
pub(crate) struct Course {
    steps: Vec<Step>,
    step_us: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
    pub(crate) latency: Histogram<u64>,
}

impl Course {
    pub(crate) fn of(duration: Duration) -> Self {
        let step = Step {
            allowed: 0,
            denied: 0,
            errors: 0,
            latency: histogram(2),
        };
        let step_us = (micros(duration) / u64::from(STEPS)).max(1);
        Self {
            steps: vec![step; STEPS as usize],
            step_us,
        }
    }

    /// The step at a moment. What comes after the end belongs to the last.
    pub(crate) fn at(&mut self, at_us: u64) -> &mut Step {
        let index = usize::try_from(at_us / self.step_us).unwrap_or(usize::MAX);
        let last = self.steps.len() - 1;
        &mut self.steps[index.min(last)]
    }

    /// The steps that a load of this length reached.
    pub(crate) fn timeline(&self, duration: Duration) -> Timeline {
        let reached =
            usize::try_from(micros(duration).div_ceil(self.step_us)).unwrap_or(usize::MAX);
        let steps = &self.steps[..reached.clamp(1, self.steps.len())];
        Timeline {
            step_s: Duration::from_micros(self.step_us).as_secs_f64(),
            allowed: steps.iter().map(|step| step.allowed).collect(),
            denied: steps.iter().map(|step| step.denied).collect(),
            errors: steps.iter().map(|step| step.errors).collect(),
            p99_us: steps
                .iter()
                .map(|step| step.latency.value_at_quantile(0.99))
                .collect(),
        }
    }
}

/// Latencies in microseconds, to so many digits; of a size that does not grow.
pub(crate) fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, digits).expect("the bounds are right")
}
