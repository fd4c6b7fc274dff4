//! The result of a check: allowed or denied, with one outcome per limit.

mod operator;

use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{Outcome, PermitId, Verdict};
use crate::demand::Demand;
use crate::limit::{FailurePolicy, QuotaUnit};
use crate::name::LimitName;
use crate::store::{DegradedReason, Refusal, Source};
use crate::time::Micros;

pub(crate) use operator::overall_source;

/// The result of one check. A denial is a decision like any other, not an error.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))])?;
/// let decision = limiter.check("api", "user:42").try_now()?;
/// if let Some(retry_after) = decision.retry_after() {
///     println!("denied; retry in {retry_after:?}");
/// } else {
///     println!("{} of {} left", decision.remaining(), decision.limit());
/// }
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "an unread decision limits nothing"]
pub struct Decision {
    limits: SmallVec<[LimitOutcome; 1]>,
    /// The index in `limits` of the limit that denied the request; `None` when it is allowed. There
    /// are at most `DEMANDS_MAX` limits, so it always fits.
    decider: Option<u16>,
    source: Source,
    /// [`PermitId::NONE`] when there is no permit to release.
    permit_id: PermitId,
}

/// The outcome of one limit in a [`Decision`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOutcome {
    name: LimitName,
    outcome: Outcome,
    window: Option<Micros>,
    unit: QuotaUnit,
    shadow: bool,
    source: Source,
    fallback: Option<(FailurePolicy, DegradedReason)>,
    refusal: Option<Refusal>,
}

/// When a denied request would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After this time, if nothing else is spent meanwhile.
    After(Duration),
    /// Never: the cost exceeds the limit's capacity.
    Never,
}

impl Decision {
    #[inline(always)]
    pub(crate) fn new(
        limits: SmallVec<[LimitOutcome; 1]>,
        source: Source,
        permit_id: Option<PermitId>,
    ) -> Self {
        let decider = Self::find_decider(&limits);
        let permit_id = permit_id
            .filter(|_| decider.is_none())
            .unwrap_or(PermitId::NONE);

        Self {
            limits,
            decider,
            source,
            permit_id,
        }
    }

    /// The decision of a single limit, without a permit.
    #[inline(always)]
    pub(crate) fn single(limit: LimitOutcome) -> Self {
        Self {
            decider: limit.is_enforced_denial().then_some(0),
            source: limit.source,
            limits: SmallVec::from_buf([limit]),
            permit_id: PermitId::NONE,
        }
    }

    /// The index of the limit that denies for the longest time: once it allows the request, all
    /// others do too.
    fn find_decider(limits: &[LimitOutcome]) -> Option<u16> {
        let denying = limits
            .iter()
            .enumerate()
            .filter(|(_, limit)| limit.is_enforced_denial());

        denying
            .max_by_key(|(_, limit)| limit.retry())
            .and_then(|(index, _)| u16::try_from(index).ok())
    }

    /// The same decision with a permit that was acquired although the request did not fit, because
    /// it was only counted.
    #[cold]
    pub(crate) fn with_counted_permit(mut self, permit_id: Option<PermitId>) -> Self {
        self.permit_id = permit_id.unwrap_or(PermitId::NONE);
        self
    }

    /// Turns an allowed decision into a denial, for a caller that cannot wait in the queue as long
    /// as required. The units and the permit must have been returned already.
    pub(crate) fn into_queue_denial(mut self) -> Self {
        let enforced = self
            .limits
            .iter()
            .enumerate()
            .filter(|(_, limit)| !limit.shadow);
        self.decider = enforced
            .max_by_key(|(_, limit)| limit.wait())
            .and_then(|(index, _)| u16::try_from(index).ok());

        if let Some(limit) = self
            .decider
            .and_then(|index| self.limits.get_mut(usize::from(index)))
        {
            limit.outcome.verdict = Verdict::Deny {
                retry_after: limit.wait_micros(),
            };
        }

        self.permit_id = PermitId::NONE;
        self
    }

    /// True when the request may pass.
    pub fn is_allowed(&self) -> bool {
        self.decider.is_none()
    }

    /// The limit that denied the request; `None` when it is allowed. If several limits denied it,
    /// this is the one with the longest retry time.
    pub fn denied_by(&self) -> Option<&LimitOutcome> {
        self.decider
            .and_then(|index| self.limits.get(usize::from(index)))
    }

    /// How long to wait before retrying. `None` when the request is allowed, or when it can never
    /// pass (see [`is_never`](Self::is_never)).
    pub fn retry_after(&self) -> Option<Duration> {
        match self.retry()? {
            Retry::After(length) => Some(length),
            Retry::Never => None,
        }
    }

    /// When the request would pass; `None` when it is allowed.
    pub fn retry(&self) -> Option<Retry> {
        self.denied_by().and_then(LimitOutcome::retry)
    }

    /// True when the request is denied because the key is [locked out](crate::Lockout) of the
    /// deciding limit.
    pub fn is_locked_out(&self) -> bool {
        self.denied_by().is_some_and(LimitOutcome::is_locked_out)
    }

    /// True when the request can never pass, because its cost exceeds a limit's capacity.
    pub fn is_never(&self) -> bool {
        self.retry() == Some(Retry::Never)
    }

    /// How long an allowed request must wait in queue limits before it proceeds. Zero when no queue
    /// limit took part, and when the request is denied.
    pub fn wait(&self) -> Duration {
        if !self.is_allowed() {
            return Duration::ZERO;
        }
        let waits = self
            .limits
            .iter()
            .filter(|limit| !limit.shadow)
            .map(LimitOutcome::wait);
        waits.max().unwrap_or_default()
    }

    /// Units left in the [tightest](Self::tightest) limit; 0 when no limit took part.
    pub fn remaining(&self) -> u64 {
        self.tightest().map_or(0, LimitOutcome::remaining)
    }

    /// The size of the [tightest](Self::tightest) limit; 0 when no limit took part.
    pub fn limit(&self) -> u64 {
        self.tightest().map_or(0, LimitOutcome::limit)
    }

    /// How long until the budget of the [tightest](Self::tightest) limit is full again; zero when
    /// no limit took part.
    pub fn reset_after(&self) -> Duration {
        self.tightest()
            .map_or(Duration::ZERO, LimitOutcome::reset_after)
    }

    /// The limit to report when only one can be reported: the one that denied the request, else the
    /// enforced limit with the fewest units left. `None` when no limit took part.
    pub fn tightest(&self) -> Option<&LimitOutcome> {
        let counts = |limit: &&LimitOutcome| !limit.shadow && limit.is_counted();
        let enforced = || self.limits.iter().filter(counts);
        let tightness = |limit: &&LimitOutcome| {
            let reset_after = limit.outcome.reset_after;
            (limit.remaining(), std::cmp::Reverse(reset_after))
        };

        self.denied_by()
            .or_else(|| enforced().min_by_key(tightness))
            .or_else(|| self.limits.first())
    }

    /// The outcome of every limit, in the order of the request.
    pub fn limits(&self) -> &[LimitOutcome] {
        &self.limits
    }

    /// Where the decision came from.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// True when the store was unavailable and the limits' failure policies decided.
    /// [`LimitOutcome::fallback`] returns the policy of each limit.
    pub const fn is_degraded(&self) -> bool {
        matches!(self.source, Source::Fallback)
    }

    /// Why failure policies made the decision; `None` when it is not degraded.
    pub fn degraded_reason(&self) -> Option<DegradedReason> {
        let mut limits = self.limits.iter();
        limits.find_map(|limit| Some(limit.fallback?.1))
    }

    /// True when the request is denied only because the store is unavailable and the deciding
    /// limit's policy is [`FailurePolicy::Deny`], or because the store has found a fault of its own.
    /// The client did nothing wrong, and may retry soon.
    pub fn is_unavailable(&self) -> bool {
        let is_fault = matches!(self.refusal(), Some(Refusal::Malformed | Refusal::Script));
        let decider = self.denied_by();
        is_fault || decider.is_some_and(LimitOutcome::is_denied_by_policy)
    }

    /// The fault in the store because of which the request is denied, although the limit is neither
    /// exceeded nor unavailable.
    pub fn refusal(&self) -> Option<Refusal> {
        self.denied_by().and_then(LimitOutcome::refusal)
    }

    /// The permit to release when the work is done. `None` when the request is denied (unless it was
    /// only counted), or when no concurrency limit granted a permit.
    pub fn permit_id(&self) -> Option<PermitId> {
        Some(self.permit_id).filter(|permit_id| *permit_id != PermitId::NONE)
    }
}

impl LimitOutcome {
    #[inline(always)]
    pub(crate) fn new(demand: &Demand<'_>, outcome: Outcome, source: Source) -> Self {
        let source = if demand.key.is_local() {
            Source::Local
        } else {
            source
        };

        Self::from_outcome(demand, outcome, source)
    }

    #[inline(always)]
    fn from_outcome<K>(demand: &Demand<'_, K>, outcome: Outcome, source: Source) -> Self {
        Self {
            name: *demand.limit.name(),
            outcome,
            window: demand.quota().window(),
            unit: demand.limit.unit(),
            shadow: demand.limit.is_shadow(),
            source,
            fallback: None,
            refusal: None,
        }
    }

    /// The same outcome, as denied because of a fault in the store.
    pub(crate) const fn with_refusal(self, refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal),
            ..self
        }
    }

    /// The same outcome, as decided by a failure policy.
    pub(crate) const fn with_fallback(self, policy: FailurePolicy, reason: DegradedReason) -> Self {
        Self {
            fallback: Some((policy, reason)),
            source: Source::Fallback,
            ..self
        }
    }

    /// The limit's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limit's name as bytes. Unlike [`name`](Self::name), this needs no UTF-8 validation.
    pub fn name_bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// The size of the limit: its limit or capacity. With the fallback
    /// [`Local`](FailurePolicy::Local), this process's share of it.
    pub const fn limit(&self) -> u64 {
        self.outcome.limit
    }

    /// Whole units left. With the fallback [`Allow`](FailurePolicy::Allow) nothing is counted, so
    /// this is the whole limit; with [`Deny`](FailurePolicy::Deny) it is 0.
    pub const fn remaining(&self) -> u64 {
        self.outcome.remaining
    }

    /// How long until the budget is full again.
    pub fn reset_after(&self) -> Duration {
        self.outcome.reset_after.into()
    }

    /// How long until more units are available: more than [`remaining`](Self::remaining), or if
    /// the limit denies the request, as many as it costs. `None` when that is unknown, when the
    /// budget is full, and when the request can never pass. A concurrency limit knows it only for a
    /// denial, and then at the latest: permits end when they are released.
    pub fn more_after(&self) -> Option<Duration> {
        match self.outcome.verdict {
            Verdict::Allow { .. } => Some(self.outcome.more_after),
            Verdict::Deny { retry_after } => Some(retry_after),
            Verdict::Never => None,
        }
        .filter(|length| *length > Micros::ZERO)
        .map(Into::into)
    }

    /// When the request would pass this limit; `None` when the limit allows it.
    pub fn retry(&self) -> Option<Retry> {
        match self.outcome.verdict {
            Verdict::Allow { .. } => None,
            Verdict::Deny { retry_after } => Some(Retry::After(retry_after.into())),
            Verdict::Never => Some(Retry::Never),
        }
    }

    /// True when the key is [locked out](crate::Lockout) of this limit.
    pub fn is_locked_out(&self) -> bool {
        self.outcome.lock.rest().is_some()
    }

    /// How long the key is still [locked out](crate::Lockout) of this limit; `None` if it is not.
    pub fn locked_for(&self) -> Option<Duration> {
        self.outcome.lock.rest().map(Into::into)
    }

    /// The limit's window. For a bucket or a queue, the time it takes to refill; `None` for a
    /// concurrency limit.
    pub fn window(&self) -> Option<Duration> {
        self.window.map(Into::into)
    }

    /// What the units of the limit are.
    pub const fn unit(&self) -> QuotaUnit {
        self.unit
    }

    /// True for a shadow limit, which counts and reports but never denies a request.
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Where this outcome came from.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The failure policy that decided instead of the store; `None` when the store was available.
    pub fn fallback(&self) -> Option<FailurePolicy> {
        self.fallback.map(|(policy, _)| policy)
    }

    /// The fault in the store because of which the limit denies, if there is one.
    pub const fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// True when the limit, enforced or shadow, denies only because of its failure policy.
    pub(crate) fn is_denied_by_policy(&self) -> bool {
        self.fallback() == Some(FailurePolicy::Deny)
            && matches!(self.outcome.verdict, Verdict::Deny { .. })
    }

    /// True when the limit was charged, provided that the request as a whole was allowed. A limit
    /// that denies is not charged, nor is one whose fallback is [`FailurePolicy::Allow`].
    pub(crate) fn is_charged(&self) -> bool {
        self.fallback() != Some(FailurePolicy::Allow) && self.outcome.verdict.is_allowed()
    }

    /// The outcome as the algorithm computed it.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn wait(&self) -> Duration {
        self.wait_micros().into()
    }

    fn wait_micros(&self) -> Micros {
        match self.outcome.verdict {
            Verdict::Allow { wait } => wait,
            Verdict::Deny { .. } | Verdict::Never => Micros::ZERO,
        }
    }

    /// True when this limit denies the request and is not a shadow limit.
    pub const fn is_enforced_denial(&self) -> bool {
        !self.shadow && !self.outcome.verdict.is_allowed()
    }
}
