//! Which limits a request names, with which keys, numbers and costs.

use smallvec::SmallVec;

use super::{Error, Limiter};
use crate::algorithm::{LeaseId, Outcome, Quota};
use crate::decision::{Decision, LimitStatus, Source};
use crate::key::ToKey;
use crate::limit::Rule;
use crate::store::{CHECKS_MAX, Check, Checks};

/// Collects the checks of a request. What goes wrong on the way is kept and said at the end.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    limiter: &'a Limiter,
    rules: SmallVec<[&'a Rule; 1]>,
    checks: Checks,
    error: Option<Error>,
}

impl<'a> Selection<'a> {
    #[inline]
    pub(super) fn new(limiter: &'a Limiter) -> Self {
        Self { limiter, rules: SmallVec::new(), checks: Checks::new(), error: None }
    }

    #[inline]
    pub(super) fn add(&mut self, limit: &str, key: impl ToKey) {
        if self.error.is_some() {
            return;
        }
        let checked = self.limiter.rule(limit).and_then(|rule| match rule.check(key, 1) {
            Ok(check) => Ok((rule, check)),
            Err(source) => Err(Error::Key { limit: limit.to_owned(), source }),
        });
        match checked {
            Ok(_) if self.checks.len() == CHECKS_MAX => self.error = Some(Error::TooManyChecks),
            Ok((_, check)) if self.checks.iter().any(|other| other.key == check.key) => {
                self.error = Some(Error::DuplicateCheck { limit: limit.to_owned() });
            }
            Ok((rule, check)) => {
                self.rules.push(rule);
                self.checks.push(check);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Sets the cost of every check.
    pub(super) fn cost(&mut self, cost: u64) {
        self.checks.iter_mut().for_each(|check| check.cost = cost);
    }

    /// Sets the cost of the check named last.
    pub(super) fn last_cost(&mut self, cost: u64) {
        if let Some(check) = self.checks.last_mut() {
            check.cost = cost;
        }
    }

    /// Sets the numbers of the check named last.
    pub(super) fn last_quota(&mut self, quota: Quota) {
        let (Some(rule), Some(check), None) = (self.rules.last(), self.checks.last_mut(), &self.error) else { return };
        if rule.quota().shape() == quota.shape() {
            check.quota = quota;
        } else {
            let (expected, found) = (rule.quota().algorithm(), quota.algorithm());
            self.error = Some(Error::OtherShape { limit: rule.name().to_string(), expected, found });
        }
    }

    pub(super) fn limiter(&self) -> &'a Limiter {
        self.limiter
    }

    #[inline]
    pub(super) fn checks(&self) -> &[Check] {
        &self.checks
    }

    pub(super) fn rules(&self) -> &[&'a Rule] {
        &self.rules
    }

    pub(super) fn take_error(&mut self) -> Result<(), Error> {
        self.error.take().map_or(Ok(()), Err)
    }

    pub(super) fn into_checks(mut self) -> Result<Checks, Error> {
        self.take_error().map(|()| self.checks)
    }

    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.checks.iter().any(|check| matches!(check.quota, Quota::Concurrency(_)) && check.cost > 0)
    }

    /// The decision that the store's outcomes make.
    #[inline]
    pub(super) fn decide(&self, outcomes: &[Outcome], lease: Option<LeaseId>) -> Decision {
        let statuses = self.rules.iter().zip(&self.checks).zip(outcomes);
        let status = |((rule, check), outcome): ((&&Rule, &Check), &Outcome)| {
            LimitStatus::new(rule.name(), &check.quota, *outcome, check.shadow)
        };
        Decision::new(statuses.map(status).collect(), Source::Store, lease)
    }
}
