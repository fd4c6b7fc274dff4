//! Many questions whose keys are written down, for callers that count what limits say rather than tell a client.

use smallvec::SmallVec;

use super::ask::holds;
use super::failure::Question;
use super::select::{duplicate, numbers};
use super::{Error, Limiter};
use crate::algorithm::{LeaseId, Outcome, Quota};
use crate::key::EncodedKey;
use crate::limit::Rule;
use crate::store::{Answer, CHECKS_MAX, Check, Intent};

/// One limit to ask about a key that is written down.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCheck<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// Who is counted.
    pub key: &'a EncodedKey,
    /// Units to spend; 0 only looks.
    pub cost: u64,
    /// Other numbers than the limit's own, of its algorithm and window.
    pub quota: Option<&'a Quota>,
}

/// What each limit says, in the order asked.
pub type Outcomes = SmallVec<[Outcome; 4]>;

impl Limiter {
    /// What each limit says to a request that must pass them all, without the wrapping of a
    /// [`Decision`](crate::Decision): the same question as [`request`](Self::request) put
    /// [`immediately`](super::Ask::immediately), for replays that put millions of them. No key is copied.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::limiter::WrittenCheck;
    /// use tollgate::store::Intent;
    /// use tollgate::{EncodedKey, Limit, Limiter};
    ///
    /// let limiter = Limiter::in_memory([Limit::sliding_log("api", 100, Duration::from_secs(60))]);
    /// let key = EncodedKey::of("ann")?;
    /// let check = WrittenCheck { limit: "api", key: &key, cost: 5, quota: None };
    /// assert_eq!(limiter.outcomes(&[check], Intent::Spend)?[0].remaining, 95);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn outcomes(&self, written: &[WrittenCheck<'_>], intent: Intent) -> Result<Outcomes, Error> {
        if written.len() > CHECKS_MAX {
            return Err(Error::TooManyChecks);
        }
        let mut rules: SmallVec<[&Rule; 4]> = SmallVec::new();
        let mut checks: SmallVec<[Check<'_>; 4]> = SmallVec::new();
        for WrittenCheck { limit, key, cost, quota } in written {
            let rule = self.find(limit).or_else(|name| self.rule(name))?;
            let check = rule.check_with(key.as_parts(), numbers(rule, *quota)?, *cost);
            if checks.iter().any(|other| other.key == check.key) {
                return Err(duplicate(rule));
            }
            rules.push(rule);
            checks.push(check);
        }
        self.spend_written(&rules, &checks, intent)
    }

    fn spend_written(
        &self,
        rules: &[&Rule],
        checks: &[Check<'_>],
        intent: Intent,
    ) -> Result<Outcomes, Error> {
        let inner = &self.inner;
        if checks.is_empty() {
            return Ok(Outcomes::new());
        }
        let lease = (intent == Intent::Spend && holds(checks)).then(|| inner.lease_ids.next());
        let id = lease.unwrap_or(LeaseId::NONE);
        if let [check] = checks
            && let Some((outcome, _)) = inner.store.spend_one(check, intent, id)
        {
            return Ok(Outcomes::from_elem(outcome, 1));
        }
        match inner.store.spend(checks, intent, id) {
            Answer::Ready(Some(Ok(spent))) => {
                inner.heard(&spent);
                Ok(Outcomes::from_slice(&spent.outcomes))
            }
            Answer::Ready(Some(Err(error))) => {
                let settled = inner.fall_back(&Question { rules, checks, intent, lease }, &error);
                Ok(settled.decision.limits().iter().map(crate::decision::LimitStatus::outcome).collect())
            }
            Answer::Ready(None) | Answer::Pending(_) => Err(Error::NotImmediate),
        }
    }
}
