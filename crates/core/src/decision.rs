//! What a limiter answers: allowed or denied, and everything a client may want to know about it.

use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{Outcome, PermitId, Verdict};
use crate::limit::FailurePolicy;
use crate::name::LimitName;
use crate::store::Demand;
use crate::time::Micros;

/// The answer to one request. A denial is a value like any other, not an error.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
/// let decision = limiter.check("api", "user:42").now_or_never()?;
/// if let Some(wait) = decision.retry_after() {
///     println!("try again in {wait:?}");
/// } else {
///     println!("{} left of {}", decision.remaining(), decision.limit());
/// }
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a decision that nobody reads limits nothing"]
pub struct Decision {
    limits: SmallVec<[LimitOutcome; 1]>,
    decider: Option<u8>,
    source: Source,
    /// [`PermitId::NONE`] where there is nothing to release.
    lease: PermitId,
}

/// How a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// By the store.
    Store,
    /// From units taken from the store in advance.
    Lease,
    /// From a denial that the store said would hold until later.
    DenyCache,
    /// By the limits' failure policies, because the store gave no answer.
    Fallback,
    /// In this process alone, as the limit asks.
    Local,
}

impl Source {
    /// The word used in answers and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Lease => "lease",
            Self::DenyCache => "deny_cache",
            Self::Fallback => "fallback",
            Self::Local => "local",
        }
    }
}

/// What one limit said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOutcome {
    name: LimitName,
    outcome: Outcome,
    window: Option<Micros>,
    shadow: bool,
    source: Source,
    fallback: Option<FailurePolicy>,
}

/// When a denied request would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After this long.
    After(Duration),
    /// Never: it asks for more than the limit holds when full.
    Never,
}

impl Decision {
    #[inline(always)]
    pub(crate) fn new(
        limits: SmallVec<[LimitOutcome; 1]>,
        source: Source,
        lease: Option<PermitId>,
    ) -> Self {
        let decider = Self::decider_of(&limits);
        Self::assemble(limits, decider, source, lease)
    }

    /// The decision of a single limit.
    #[inline(always)]
    pub(crate) fn single(limit: LimitOutcome, source: Source, lease: Option<PermitId>) -> Self {
        let decider = limit.is_enforced_denial().then_some(0);
        Self::assemble(SmallVec::from_buf([limit]), decider, source, lease)
    }

    #[inline(always)]
    fn assemble(
        limits: SmallVec<[LimitOutcome; 1]>,
        decider: Option<u8>,
        source: Source,
        lease: Option<PermitId>,
    ) -> Self {
        let lease = lease
            .filter(|_| decider.is_none())
            .unwrap_or(PermitId::NONE);
        Self {
            limits,
            decider,
            source,
            lease,
        }
    }

    /// Of the limits that refuse, the one that refuses longest: waiting for it is waiting for all.
    fn decider_of(limits: &[LimitOutcome]) -> Option<u8> {
        let refusing = limits
            .iter()
            .enumerate()
            .filter(|(_, status)| status.is_enforced_denial());
        refusing
            .max_by_key(|(_, status)| status.retry())
            .and_then(|(index, _)| u8::try_from(index).ok())
    }

    /// This pass as the denial that it amounts to when one cannot wait for one's turn: the turn was
    /// given back.
    pub(crate) fn turned_late(mut self) -> Self {
        let longest = self
            .limits
            .iter()
            .enumerate()
            .filter(|(_, status)| !status.shadow);
        self.decider = longest
            .max_by_key(|(_, status)| status.wait())
            .and_then(|(index, _)| u8::try_from(index).ok());
        if let Some(status) = self
            .decider
            .and_then(|index| self.limits.get_mut(usize::from(index)))
        {
            status.outcome.verdict = Verdict::Deny {
                retry_after: status.wait_micros(),
            };
        }
        self.lease = PermitId::NONE;
        self
    }

    /// True when the request may pass.
    pub fn is_allowed(&self) -> bool {
        self.decider.is_none()
    }

    /// The limit that refused, and of several the one that refuses longest.
    pub fn denied_by(&self) -> Option<&LimitOutcome> {
        self.decider
            .and_then(|index| self.limits.get(usize::from(index)))
    }

    /// When to try again; `None` when allowed, or when it can never pass (see
    /// [`is_never`](Self::is_never)).
    pub fn retry_after(&self) -> Option<Duration> {
        match self.retry()? {
            Retry::After(length) => Some(length),
            Retry::Never => None,
        }
    }

    /// When to try again; `None` when allowed.
    pub fn retry(&self) -> Option<Retry> {
        self.denied_by().and_then(LimitOutcome::retry)
    }

    /// True when the request asks for more than a limit holds when full, so that no waiting helps.
    pub fn is_never(&self) -> bool {
        self.retry() == Some(Retry::Never)
    }

    /// How long to hold the request before letting it through, as queues ask.
    pub fn wait(&self) -> Duration {
        if !self.is_allowed() {
            return Duration::ZERO;
        }
        let waits = self
            .limits
            .iter()
            .filter(|status| !status.shadow)
            .map(LimitOutcome::wait);
        waits.max().unwrap_or_default()
    }

    /// Units left in the limit that will stop this client first.
    pub fn remaining(&self) -> u64 {
        self.tightest().map_or(0, LimitOutcome::remaining)
    }

    /// The most that passes at once in the limit that will stop this client first.
    pub fn limit(&self) -> u64 {
        self.tightest().map_or(0, LimitOutcome::limit)
    }

    /// How long until the budget is full again in the limit that will stop this client first.
    pub fn reset_after(&self) -> Duration {
        self.tightest()
            .map_or(Duration::ZERO, LimitOutcome::reset_after)
    }

    /// The limit to tell a client about when only one can be told: the one that refused, else the
    /// one with least left.
    pub fn tightest(&self) -> Option<&LimitOutcome> {
        let enforced = || self.limits.iter().filter(|status| !status.shadow);
        self.denied_by()
            .or_else(|| {
                enforced().min_by_key(|status| {
                    (
                        status.remaining(),
                        std::cmp::Reverse(status.outcome.reset_after),
                    )
                })
            })
            .or_else(|| self.limits.first())
    }

    /// What every limit said, in the order asked.
    pub fn limits(&self) -> &[LimitOutcome] {
        &self.limits
    }

    /// How it was decided.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// True when the store gave no answer and the limits' failure policies did.
    /// [`LimitOutcome::fallback`] says which.
    pub const fn is_degraded(&self) -> bool {
        matches!(self.source, Source::Fallback)
    }

    /// True when the request is refused only because the store is away and the policy of the limit
    /// that refuses is [`FailurePolicy::Deny`]: the client did nothing wrong, and HTTP says 503
    /// instead of 429.
    pub fn is_unavailable(&self) -> bool {
        self.denied_by()
            .is_some_and(LimitOutcome::is_refused_by_policy)
    }

    /// What to release when the work is done, if a concurrency limit took part and the request
    /// passed.
    pub fn permit_id(&self) -> Option<PermitId> {
        Some(self.lease).filter(|lease| *lease != PermitId::NONE)
    }
}

impl LimitOutcome {
    #[inline(always)]
    pub(crate) fn new(
        name: LimitName,
        check: &Demand<'_>,
        outcome: Outcome,
        source: Source,
    ) -> Self {
        let source = if check.key.is_local() {
            Source::Local
        } else {
            source
        };
        let (window, shadow) = (check.quota.window(), check.shadow);
        Self {
            name,
            outcome,
            window,
            shadow,
            source,
            fallback: None,
        }
    }

    /// The same answer, given by a failure policy.
    pub(crate) const fn by_policy(self, policy: FailurePolicy) -> Self {
        Self {
            fallback: Some(policy),
            source: Source::Fallback,
            ..self
        }
    }

    /// The limit's name as bytes, which nobody has looked at again.
    #[cfg(feature = "headers")]
    pub(crate) fn name_bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// The limit's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most that passes at once. By the policy [`Local`](FailurePolicy::Local), this process's
    /// share of it.
    pub const fn limit(&self) -> u64 {
        self.outcome.limit
    }

    /// Whole units left. By the policy [`Allow`](FailurePolicy::Allow) nothing is counted, so
    /// nothing is missing; by [`Deny`](FailurePolicy::Deny) nothing is to be had.
    pub const fn remaining(&self) -> u64 {
        self.outcome.remaining
    }

    /// How long until the budget is full again.
    pub fn reset_after(&self) -> Duration {
        self.outcome.reset_after.into()
    }

    /// When the request would pass this limit; `None` when it does now.
    pub fn retry(&self) -> Option<Retry> {
        match self.outcome.verdict {
            Verdict::Allow { .. } => None,
            Verdict::Deny { retry_after } => Some(Retry::After(retry_after.into())),
            Verdict::Never => Some(Retry::Never),
        }
    }

    /// The time over which the limit is meant; a concurrency limit has none.
    pub fn window(&self) -> Option<Duration> {
        self.window.map(Into::into)
    }

    /// True when the limit only counts and reports.
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// How this limit came to its answer.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The policy that answered in place of the store; `None` when the store did.
    pub const fn fallback(&self) -> Option<FailurePolicy> {
        self.fallback
    }

    /// True when the limit refuses, whether that stops the request or not, for no other reason than
    /// its policy.
    pub(crate) fn is_refused_by_policy(&self) -> bool {
        self.fallback == Some(FailurePolicy::Deny)
            && matches!(self.outcome.verdict, Verdict::Deny { .. })
    }

    /// True when the request, if it passed, was counted here: not what was refused, and not what a
    /// policy let through.
    pub(crate) fn counts(&self) -> bool {
        self.fallback != Some(FailurePolicy::Allow) && self.outcome.verdict.is_allowed()
    }

    /// The raw answer.
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

    /// True when this limit, not a shadow, refuses.
    pub const fn is_enforced_denial(&self) -> bool {
        !self.shadow && !self.outcome.verdict.is_allowed()
    }
}
