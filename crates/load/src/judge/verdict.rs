//! What a report says about limits.

use tollgate_audit::Interval;

use super::{Followed, Judge, Judged};
use crate::question;
use crate::report::{LimitReport, Worst};

impl Judge {
    /// Every limit that let something through, in the order in which they were met.
    pub(crate) fn verdict(&self) -> Vec<LimitReport> {
        self.limits
            .iter()
            .enumerate()
            .map(|(index, judged)| self.of(index, judged))
            .collect()
    }

    /// Admissions of counters that were not followed.
    pub(crate) const fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    fn of(&self, index: usize, judged: &Judged) -> LimitReport {
        let own = || {
            self.followed
                .values()
                .filter(|followed| followed.limit == index)
        };
        let worst = own().filter_map(|followed| Some((followed, followed.worst()?)));
        let worst = worst.max_by(|(_, a), (_, b)| a.excess.units().total_cmp(&b.excess.units()));
        LimitReport {
            name: judged.name.clone(),
            admitted: judged.admitted,
            admitted_by_policy: judged.by_policy,
            keys: own().count(),
            allowed: judged.promise.as_ref().map(|(words, _)| words.clone()),
            judged_by: judged.promise.as_ref().map(|(_, by)| by.as_str()),
            exceeded: judged.is_exceeded,
            worst: worst.map(|(followed, interval)| self.shown(followed, interval)),
            not_judged: judged.unjudged.as_ref().map(ToString::to_string),
        }
    }

    fn shown(&self, followed: &Followed, interval: Interval) -> Worst {
        let Interval {
            start,
            end,
            admitted,
            excess,
        } = interval;
        let plan = &self.charger.plan;
        Worst {
            key: question::label(&plan.asking, followed.draw, &plan.keys),
            from_s: secs(start.get()),
            to_s: secs(end.get()),
            admitted: u64::try_from(admitted).unwrap_or(u64::MAX),
            over: excess.units(),
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
