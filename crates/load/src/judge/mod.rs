//! Judges whether limits held, by comparing what they admitted with what they allow.
//!
//! A request was admitted at some time between its sending and its response, and only what is
//! certain is counted (see [`tollgate_audit`]). So no delay of the network or of a busy machine can
//! make a limit look exceeded. A limit that is reported as exceeded was exceeded.
//!
//! With a configuration, the judge knows which requests share a counter. Without one, it assumes
//! that every distinct request has counters of its own. That may miss an excess, but never reports
//! a false one.

mod bounds;
mod resolve;
#[cfg(test)]
mod tests;
mod track;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use tollgate_audit::{AuditInterval, TimeSpan};

use crate::generator::RequestParams;
use crate::plan::LoadPlan;
use crate::report::{LoadLimitReport, LoadWorstInterval};
use crate::request;
use crate::response::{LimitStatus, ResponseDecision};

use bounds::JudgeError;
pub use bounds::{Allowance, BoundSource};
use resolve::{CounterUpdate, resolve, select_limits};
use track::CounterTrack;

/// The maximum number of tracked counters. They take at most 100 MB, if all of them are sliding
/// logs that are always full, and usually a tenth of that.
const COUNTERS_MAX: usize = 16_384;
/// The maximum number of limits. A single request has at most 16.
const LIMITS_MAX: usize = 64;

/// Tracks what limits admit.
#[derive(Debug)]
pub(crate) struct LimitJudge {
    plan: Rc<LoadPlan>,
    limits: Vec<LimitRecord>,
    counters: HashMap<Vec<u8>, CounterTrack>,
    /// Admissions of counters beyond [`COUNTERS_MAX`].
    pub(crate) untracked: u64,
}

/// What is known about one limit.
#[derive(Debug, Default)]
struct LimitRecord {
    name: String,
    /// Number of admitted requests.
    admitted: u64,
    /// Of `admitted`: by a failure policy. These are not judged.
    by_policy: u64,
    /// What the limit allows, as text, and where that is known from.
    bounds: Option<(String, &'static str)>,
    /// Why some admissions were not judged.
    error: Option<JudgeError>,
    is_exceeded: bool,
}

impl LimitJudge {
    pub(crate) fn new(plan: Rc<LoadPlan>) -> Self {
        Self {
            plan,
            limits: Vec::new(),
            counters: HashMap::new(),
            untracked: 0,
        }
    }

    /// Records a request that was admitted at some time during `span`. Returns whether a limit
    /// applied to it.
    pub(crate) fn record_admission(
        &mut self,
        params: RequestParams,
        span: TimeSpan,
        decision: &ResponseDecision,
    ) -> bool {
        let plan = Rc::clone(&self.plan);
        let selection = select_limits(&plan, params);

        // A response that names no limits can still be judged by an allowance for all of them.
        let unnamed = LimitStatus {
            name: "limit".to_owned(),
            is_fallback: decision.is_degraded,
            ..LimitStatus::default()
        };
        let mut allowances = plan.allowances.iter();
        let limits = if decision.limits.is_empty()
            && allowances.any(|allowance| allowance.limit.is_none())
        {
            std::slice::from_ref(&unnamed)
        } else {
            &decision.limits[..]
        };

        for limit in limits {
            let Some(index) = self.index_of(&limit.name) else {
                continue;
            };
            let record = &mut self.limits[index];
            record.admitted += 1;
            if limit.is_fallback {
                record.by_policy += 1;
                continue;
            }

            let update = resolve(&plan, index, limit, params, selection.as_deref());
            let updated =
                update.and_then(|update| self.update_counter(index, limit, params, span, update));
            if let Err(error) = updated {
                self.limits[index].error.get_or_insert(error);
            }
        }
        !limits.is_empty() && !decision.is_unchecked
    }

    /// Names of the limits exceeded so far.
    pub(crate) fn exceeded(&self) -> impl Iterator<Item = &str> {
        self.limits
            .iter()
            .filter(|limit| limit.is_exceeded)
            .map(|limit| limit.name.as_str())
    }

    /// The index of a limit, which is added if it is new. `None` if there are too many.
    fn index_of(&mut self, name: &str) -> Option<usize> {
        let known = self.limits.iter().position(|limit| limit.name == name);
        if known.is_some() || self.limits.len() == LIMITS_MAX {
            return known;
        }

        self.limits.push(LimitRecord {
            name: name.to_owned(),
            ..LimitRecord::default()
        });
        Some(self.limits.len() - 1)
    }

    /// Adds an admission to its counter. With another quota another bound would apply, so that is
    /// an error.
    fn update_counter(
        &mut self,
        index: usize,
        status: &LimitStatus,
        params: RequestParams,
        span: TimeSpan,
        update: CounterUpdate,
    ) -> Result<(), JudgeError> {
        if update.cost == 0 {
            return Ok(());
        }

        let limit = &mut self.limits[index];
        let bounds = &update.bounds;
        limit
            .bounds
            .get_or_insert_with(|| (bounds.to_string(), update.origin));

        let counters = self.counters.len();
        let counter =
            match self.counters.entry(update.counter_id) {
                Entry::Occupied(counter) => counter.into_mut(),
                Entry::Vacant(vacant) if counters < COUNTERS_MAX => vacant.insert(
                    CounterTrack::new(index, params, status.limit, &update.bounds),
                ),
                Entry::Vacant(_) => {
                    self.untracked += 1;
                    return Ok(());
                }
            };

        if counter.reported_limit != status.limit {
            return Err(JudgeError::QuotaChanged);
        }
        limit.is_exceeded |= counter.admit(span, status.reset_after_ms, update.cost);
        Ok(())
    }

    /// A report for every limit that admitted something, in the order they were first seen.
    pub(crate) fn limit_reports(&self) -> Vec<LoadLimitReport> {
        self.limits
            .iter()
            .enumerate()
            .map(|(index, limit)| self.limit_report(index, limit))
            .collect()
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
