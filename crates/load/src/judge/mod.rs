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
mod verdict;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use tollgate_audit::TimeSpan;

use crate::generator::RequestParams;
use crate::plan::LoadPlan;
use crate::response::{LimitStatus, ResponseDecision};

pub(crate) use bounds::JudgeError;
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
    untracked: u64,
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

    /// Records a request that was admitted at some time during `span`.
    pub(crate) fn record_admission(
        &mut self,
        params: RequestParams,
        span: TimeSpan,
        decision: &ResponseDecision,
    ) {
        let plan = Rc::clone(&self.plan);
        let selection = select_limits(&plan, params);

        // A response that names no limits can still be judged by an allowance.
        let unnamed = LimitStatus {
            name: "limit".to_owned(),
            is_fallback: decision.is_degraded,
            ..LimitStatus::default()
        };
        let has_names = !decision.limits.is_empty() || plan.allowances.is_empty();
        let limits = if has_names {
            &decision.limits[..]
        } else {
            std::slice::from_ref(&unnamed)
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
}
