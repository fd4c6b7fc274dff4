//! Counts and latencies over the course of a load, in a fixed number of steps.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::micros;
use crate::latency::latency_histogram;
use crate::report::LoadTimeline;

/// Number of steps, whatever the duration of the load.
const STEPS: u32 = 60;

/// Collects the data for a [`LoadTimeline`].
#[derive(Debug)]
pub(crate) struct TimelineBuilder {
    steps: Vec<TimelineStep>,
    step_us: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct TimelineStep {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
    pub(crate) latency: Histogram<u64>,
}

impl TimelineBuilder {
    pub(crate) fn new(duration: Duration) -> Self {
        let step = TimelineStep {
            allowed: 0,
            denied: 0,
            errors: 0,
            latency: latency_histogram(2),
        };
        let step_us = (micros(duration) / u64::from(STEPS)).max(1);

        Self {
            steps: vec![step; STEPS as usize],
            step_us,
        }
    }

    /// The step that contains a time. Times after the end belong to the last step.
    pub(crate) fn step_at(&mut self, at_us: u64) -> &mut TimelineStep {
        let index = usize::try_from(at_us / self.step_us).unwrap_or(usize::MAX);
        let last = self.steps.len() - 1;
        &mut self.steps[index.min(last)]
    }

    /// The timeline of a load that ran for `duration`, which may be less than planned.
    pub(crate) fn timeline(&self, duration: Duration) -> LoadTimeline {
        let reached =
            usize::try_from(micros(duration).div_ceil(self.step_us)).unwrap_or(usize::MAX);
        let steps = &self.steps[..reached.clamp(1, self.steps.len())];

        LoadTimeline {
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
