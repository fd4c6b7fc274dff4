//! The part of the report about limits.

use tollgate_audit::AuditInterval;

use super::{CounterTrack, LimitJudge, LimitRecord};
use crate::report::{LoadLimitReport, LoadWorstInterval};
use crate::request;

impl LimitJudge {
    /// A report for every limit that admitted something, in the order they were first seen.
    pub(crate) fn limit_reports(&self) -> Vec<LoadLimitReport> {
        self.limits
            .iter()
            .enumerate()
            .map(|(index, limit)| self.limit_report(index, limit))
            .collect()
    }

    /// Number of admissions whose counters were not tracked, because there were too many.
    pub(crate) const fn untracked_admissions(&self) -> u64 {
        self.untracked
    }

    fn limit_report(&self, index: usize, limit: &LimitRecord) -> LoadLimitReport {
        let counters = || {
            self.counters
                .values()
                .filter(|counter| counter.limit_index == index)
        };
        let worst = counters()
            .filter_map(|counter| Some((counter, counter.worst()?)))
            .max_by(|(_, a), (_, b)| a.excess.units().total_cmp(&b.excess.units()));

        LoadLimitReport {
            name: limit.name.clone(),
            admitted: limit.admitted,
            admitted_by_policy: limit.by_policy,
            keys: counters().count(),
            allowed: limit.bounds.as_ref().map(|(text, _)| text.clone()),
            judged_by: limit.bounds.as_ref().map(|(_, origin)| *origin),
            exceeded: limit.is_exceeded,
            worst: worst.map(|(counter, interval)| self.worst_interval(counter, interval)),
            not_judged: limit.error.as_ref().map(ToString::to_string),
        }
    }

    fn worst_interval(&self, counter: &CounterTrack, interval: AuditInterval) -> LoadWorstInterval {
        LoadWorstInterval {
            key: request::label(&self.plan, counter.params),
            from_s: secs(interval.start.get()),
            to_s: secs(interval.end.get()),
            admitted: u64::try_from(interval.admitted).unwrap_or(u64::MAX),
            over: interval.excess.units(),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a load are far below 2^53"
)]
fn secs(micros: u64) -> f64 {
    micros as f64 / 1e6
}
