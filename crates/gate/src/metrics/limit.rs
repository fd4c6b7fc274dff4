//! The outcomes of one limit, counted without any lookup.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Demand, EncodedKey, LimitOutcome, Micros, Source};

use super::page::{MetricSample, to_f64};
use crate::top_keys::{KeySketch, UsageKind};

/// The values of the label `outcome`.
const OUTCOMES: [&str; 3] = ["allowed", "denied", "shadow_denied"];
/// The values of the label `source`: where a decision can come from.
pub const SOURCES: [Source; 7] = [
    Source::Store,
    Source::Lease,
    Source::DenyCache,
    Source::Fallback,
    Source::Local,
    Source::Block,
    Source::Exempt,
];

/// What became of a reservation: the values of the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservationResult {
    /// It was made.
    Reserved,
    Settled,
    Cancelled,
    /// It was settled or cancelled when it was no longer open, or never was.
    Unknown,
}

impl ReservationResult {
    const ALL: [Self; 4] = [
        Self::Reserved,
        Self::Settled,
        Self::Cancelled,
        Self::Unknown,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Settled => "settled",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

/// The counters of one limit.
#[derive(Debug, Default)]
pub struct LimitMetrics {
    /// Unique in the process: a limit that is removed and added again gets another id.
    id: u32,
    name: Arc<str>,
    /// Limits of the configuration have samples before their first decision; overrides do not.
    is_configured: bool,
    counts: [[AtomicU64; OUTCOMES.len()]; SOURCES.len()],
    /// In the order of [`ReservationResult::ALL`].
    reservations: [AtomicU64; ReservationResult::ALL.len()],
    /// The keys that use the limit most; none if keys are not recorded.
    keys: Option<Box<KeySketch>>,
    /// Requests that the limit did not count, because they lack its key.
    skipped: AtomicU64,
    /// Keys that were locked out.
    lockouts: AtomicU64,
}

/// How often a limit came to each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct OutcomeCounts {
    /// Decisions that allowed.
    pub allowed: u64,
    /// Decisions that denied.
    pub denied: u64,
    /// Decisions of a shadow limit that would have denied.
    pub shadow_denied: u64,
}

impl OutcomeCounts {
    /// The number of decisions.
    pub const fn total(&self) -> u64 {
        self.allowed
            .saturating_add(self.denied)
            .saturating_add(self.shadow_denied)
    }

    /// The sums of both. They saturate, because other replicas may say anything.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            allowed: self.allowed.saturating_add(other.allowed),
            denied: self.denied.saturating_add(other.denied),
            shadow_denied: self.shadow_denied.saturating_add(other.shadow_denied),
        }
    }

    /// The outcomes since `earlier`. A smaller total than `earlier` means that the counters were
    /// reset; then all of them are new.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        if self.total() < earlier.total() {
            return *self;
        }
        Self {
            allowed: self.allowed.saturating_sub(earlier.allowed),
            denied: self.denied.saturating_sub(earlier.denied),
            shadow_denied: self.shadow_denied.saturating_sub(earlier.shadow_denied),
        }
    }
}

/// The decisions of a limit: by source in the order of [`SOURCES`], then by outcome in the order
/// `allowed`, `denied`, `shadow_denied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts(pub [[u64; OUTCOMES.len()]; SOURCES.len()]);

impl LimitCounts {
    /// The counts since `earlier`, taken from the same limit.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.0;
        for (now, before) in counts.iter_mut().flatten().zip(earlier.0.iter().flatten()) {
            *now = now.saturating_sub(*before);
        }
        Self(counts)
    }

    /// The decisions by outcome, from all sources.
    pub fn outcomes(&self) -> OutcomeCounts {
        let [allowed, denied, shadow_denied] =
            [0, 1, 2].map(|outcome: usize| self.0.iter().map(|counts| counts[outcome]).sum());
        OutcomeCounts {
            allowed,
            denied,
            shadow_denied,
        }
    }

    /// The decisions by source, of all outcomes.
    pub fn by_source(&self) -> [u64; SOURCES.len()] {
        self.0.map(|counts| counts.iter().sum())
    }
}

impl LimitMetrics {
    pub(super) fn new(id: u32, name: &str, is_configured: bool) -> Self {
        Self {
            id,
            name: name.into(),
            is_configured,
            ..Self::default()
        }
    }

    /// The same limit, whose keys are recorded.
    pub(super) fn with_keys(self) -> Self {
        Self {
            keys: Some(Box::default()),
            ..self
        }
    }

    /// The keys that use the limit most; none if keys are not recorded.
    pub fn keys(&self) -> Option<&KeySketch> {
        self.keys.as_deref()
    }

    /// The id of the limit, unique in the process.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The name of the limit.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Limits of the configuration are, overrides and limits that requests bring along are not.
    pub(super) const fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// Counts an outcome. A limit that was not asked, because another one is blocked, has none.
    pub fn count(&self, limit_outcome: &LimitOutcome) {
        if !limit_outcome.is_counted() && !limit_outcome.is_exempt() {
            return;
        }
        let outcome = match (limit_outcome.retry(), limit_outcome.is_shadow()) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        let source = SOURCES
            .iter()
            .position(|source| *source == limit_outcome.source())
            .unwrap_or(0);

        self.counts[source][outcome].fetch_add(1, Relaxed);
        if limit_outcome.outcome().lock.is_new() {
            self.lockouts.fetch_add(1, Relaxed);
        }
    }

    /// Counts the key of a demand that was charged or denied, if keys are recorded. Shadow limits
    /// deny here, too. `is_allowed` is about the whole request.
    pub(crate) fn record_key(
        &self,
        demand: &Demand<'_, EncodedKey>,
        outcome: &LimitOutcome,
        is_allowed: bool,
        now: Micros,
    ) {
        let Some(keys) = &self.keys else {
            return;
        };
        let kind = match outcome.retry() {
            Some(_) => UsageKind::Denied,
            None if is_allowed => UsageKind::Admitted,
            // Another limit denied the request, so this one was not charged.
            None => return,
        };
        keys.record(kind, &demand.key, demand.cost, now);
    }

    pub(crate) fn count_reservation(&self, result: ReservationResult) {
        self.reservations[result as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request that the limit does not count, because it lacks the key.
    pub(crate) fn count_skip(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// The requests that the limit skipped; none until there is one.
    pub(super) fn skip_sample(&self) -> Option<MetricSample<'_>> {
        self.sample(&self.skipped)
    }

    /// The limit's lockouts; none until a key is locked out.
    pub(super) fn lockout_sample(&self) -> Option<MetricSample<'_>> {
        self.sample(&self.lockouts)
    }

    /// The sample of a counter; none while it is zero.
    fn sample(&self, count: &AtomicU64) -> Option<MetricSample<'_>> {
        let count = count.load(Relaxed);
        (count > 0).then(|| (vec![("limit", &*self.name)], to_f64(count)))
    }

    /// The samples of the limit's reservations; none until one is made or settled here.
    pub(super) fn reservation_samples(&self) -> Vec<MetricSample<'_>> {
        let counts = ReservationResult::ALL.iter().zip(&self.reservations);
        let samples = counts.filter_map(|(result, count)| {
            let (mut labels, count) = self.sample(count)?;
            labels.push(("result", result.as_str()));
            Some((labels, count))
        });
        samples.collect()
    }

    /// The decisions so far. Each counter is read once, so that all sums add up to the same total.
    pub fn counts(&self) -> LimitCounts {
        let read = |counts: &[AtomicU64; OUTCOMES.len()]| {
            counts.each_ref().map(|count| count.load(Relaxed))
        };
        LimitCounts(self.counts.each_ref().map(read))
    }

    /// The limit's samples. Counters at zero are left out, except that a configured limit always
    /// has the usual ones, so that dashboards can refer to them from the start.
    pub(super) fn samples(&self) -> Vec<MetricSample<'_>> {
        let mut samples = Vec::new();
        for (source, counts) in SOURCES.iter().zip(self.counts().0) {
            for (outcome, count) in OUTCOMES.iter().zip(counts) {
                let is_usual = *source == Source::Store && *outcome != OUTCOMES[2];

                if count > 0 || (self.is_configured && is_usual) {
                    let labels = vec![
                        ("limit", &*self.name),
                        ("outcome", outcome),
                        ("source", source.as_str()),
                    ];
                    samples.push((labels, to_f64(count)));
                }
            }
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_by_outcome_and_by_source() {
        let metrics = LimitMetrics::new(1, "a", true);
        for (source, counts) in metrics.counts.iter().enumerate() {
            for (outcome, count) in counts.iter().enumerate() {
                count.store(
                    10_u64.pow(u32::try_from(outcome).unwrap()) << source,
                    Relaxed,
                );
            }
        }
        let sum = metrics.counts();
        assert_eq!(
            sum.outcomes(),
            OutcomeCounts {
                allowed: 127,
                denied: 1_270,
                shadow_denied: 12_700
            }
        );
        assert_eq!(sum.by_source(), [111, 222, 444, 888, 1_776, 3_552, 7_104]);
        assert_eq!(sum.since(&LimitCounts::default()), sum);
        assert_eq!(sum.since(&sum), LimitCounts::default());
    }

    #[test]
    fn after_a_reset_all_outcomes_are_new() {
        let outcomes = |allowed, denied| OutcomeCounts {
            allowed,
            denied,
            shadow_denied: 0,
        };
        assert_eq!(outcomes(5, 3).since(&outcomes(1, 1)), outcomes(4, 2));
        assert_eq!(outcomes(2, 0).since(&outcomes(1, 9)), outcomes(2, 0));
    }
}
