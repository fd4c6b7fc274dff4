//! Outcomes that operators decide: blocked and exempt keys. No counter is asked for them.

use smallvec::SmallVec;

use super::{Decision, LimitOutcome, Retry};
use crate::algorithm::{KeyLock, Outcome, PermitId, Verdict};
use crate::demand::Demand;
use crate::store::Source;
use crate::time::Micros;

impl Decision {
    /// The decision that follows from these outcomes, for a service in which operators
    /// [block](LimitOutcome::blocked) and [exempt](LimitOutcome::exempt) keys. `permit_id` is that
    /// of the limits that were asked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Decision, Demand, EncodedKey, Limit, LimitOutcome, Retry, Source};
    ///
    /// let api = Limit::sliding_log("api", 100, Duration::from_secs(60)).validate()?;
    /// let demand = Demand::new(&api, EncodedKey::new("ann")?);
    /// let blocked = LimitOutcome::blocked(&demand, Retry::Never);
    /// let decision = Decision::from_limits([blocked], None);
    /// assert_eq!((decision.is_allowed(), decision.source()), (false, Source::Block));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_limits(
        limits: impl IntoIterator<Item = LimitOutcome>,
        permit_id: Option<PermitId>,
    ) -> Self {
        let limits: SmallVec<[LimitOutcome; 1]> = limits.into_iter().collect();
        let decider = Self::find_decider(&limits);
        let source = overall_source(&limits, decider);
        Self {
            limits,
            decider,
            source,
            permit_id: permit_id.unwrap_or(PermitId::NONE),
        }
    }
}

impl LimitOutcome {
    /// The outcome of a limit whose key an operator has blocked. It denies even if the limit is a
    /// shadow limit.
    pub fn blocked<K>(demand: &Demand<'_, K>, retry: Retry) -> Self {
        let (verdict, reset_after) = match retry {
            Retry::Never => (Verdict::Never, Micros::ZERO),
            Retry::After(length) => {
                let retry_after = Micros::from_duration_ceil(length).unwrap_or(Micros::MAX);
                (Verdict::Deny { retry_after }, retry_after)
            }
        };
        Self {
            shadow: false,
            ..Self::without_counter(demand, verdict, 0, reset_after, Source::Block)
        }
    }

    /// The outcome of a limit that another limit's block left unasked: see
    /// [`is_counted`](Self::is_counted).
    pub fn unasked<K>(demand: &Demand<'_, K>) -> Self {
        let limit = demand.quota().limit();
        Self::without_counter(demand, Verdict::ALLOW, limit, Micros::ZERO, Source::Block)
    }

    /// The outcome of a limit from which an operator has exempted the key.
    pub fn exempt<K>(demand: &Demand<'_, K>) -> Self {
        let limit = demand.quota().limit();
        Self::without_counter(demand, Verdict::ALLOW, limit, Micros::ZERO, Source::Exempt)
    }

    fn without_counter<K>(
        demand: &Demand<'_, K>,
        verdict: Verdict,
        remaining: u64,
        reset_after: Micros,
        source: Source,
    ) -> Self {
        let outcome = Outcome {
            verdict,
            limit: demand.quota().limit(),
            remaining,
            reset_after,
            more_after: Micros::ZERO,
            lock: KeyLock::NONE,
        };
        Self::from_outcome(demand, outcome, source)
    }

    /// True when an operator has blocked the key.
    pub fn is_blocked(&self) -> bool {
        self.source == Source::Block && !self.outcome.verdict.is_allowed()
    }

    /// True when an operator has exempted the key from the limit.
    pub fn is_exempt(&self) -> bool {
        self.source == Source::Exempt
    }

    /// True when the numbers are those of a counter, or of a block. False when the limit was not
    /// asked: its key is exempt, or another limit of the request is blocked.
    pub fn is_counted(&self) -> bool {
        match self.source {
            Source::Exempt => false,
            Source::Block => self.is_blocked(),
            _ => true,
        }
    }
}

/// The source of a decision over several limits: a block if that denies, else a failure policy, the
/// store if any outcome came from it, or the next source in this order.
pub(crate) fn overall_source(limits: &[LimitOutcome], decider: Option<u16>) -> Source {
    let precedence = [
        Source::Fallback,
        Source::Store,
        Source::DenyCache,
        Source::Lease,
        Source::Local,
        Source::Exempt,
    ];
    let decider = decider.and_then(|index| limits.get(usize::from(index)));
    if decider.is_some_and(LimitOutcome::is_blocked) {
        return Source::Block;
    }

    let is_present = |source: &Source| limits.iter().any(|limit| limit.source() == *source);
    precedence
        .into_iter()
        .find(is_present)
        .unwrap_or(Source::Store)
}
