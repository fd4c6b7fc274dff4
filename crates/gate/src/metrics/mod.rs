//! The metrics of decisions and tokens, for Prometheus.
//!
//! Labels hold names from the configuration and the first names of limits that requests bring
//! along, never keys of clients, so the number of series is bounded. The keys that use a limit most
//! are kept with its counters and never become a label.
//!
//! There is no registry: each scrape writes a page from the current counters, so a limit that was
//! removed from the configuration leaves no series behind.

mod duration;
mod inline;
mod limit;
mod page;
mod token;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use prometheus::Histogram;
use prometheus::core::Collector as _;
use tollgate::Micros;
use tollgate_rules::SelectError;

pub use self::duration::DurationBuckets;
use self::duration::new_histogram;
pub use self::inline::InlineMetrics;
pub(crate) use self::limit::ReservationResult;
pub use self::limit::{LimitCounts, LimitMetrics, OutcomeCounts, SOURCES};
pub use self::page::{CONTENT_TYPE, MetricSample, MetricType, MetricsPage, seconds, to_f64};
pub use self::token::TokenCounts;
pub(crate) use self::usage::UsageAlert;
pub use self::usage::{USAGE_PERCENTS, UsageReport, UsageWatch};
use crate::top_keys::{ALL_BYTES_MAX, LIMIT_BYTES_MAX};

/// Everything that is counted about decisions and tokens.
#[derive(Debug)]
pub struct Metrics {
    durations: Histogram,
    /// The limits of the active configuration.
    limits: Mutex<Vec<Arc<LimitMetrics>>>,
    inline: Arc<InlineMetrics>,
    /// The id of the next limit.
    next_id: AtomicU32,
    /// Whether the keys that use a limit most are recorded.
    has_keys: bool,
    usage: Arc<UsageWatch>,
    /// Requests that were refused because servers read their path differently.
    ambiguous_paths: AtomicU64,
    /// Permits and reservations without a token.
    withheld_tokens: AtomicU64,
    /// Requests that got an error instead of a decision, by its code. Codes are constants of the
    /// program, so their number is bounded.
    errors: Mutex<BTreeMap<&'static str, u64>>,
    /// The requests of the tokens of the active configuration.
    tokens: Mutex<TokenCounts>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            durations: new_histogram(),
            limits: Mutex::default(),
            inline: Arc::default(),
            next_id: AtomicU32::new(1),
            has_keys: false,
            usage: Arc::default(),
            ambiguous_paths: AtomicU64::new(0),
            withheld_tokens: AtomicU64::new(0),
            errors: Mutex::default(),
            tokens: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Metrics that also record which keys use each configured limit most.
    pub fn with_top_keys() -> Self {
        Self {
            has_keys: true,
            ..Self::default()
        }
    }

    /// Counts a request that was refused before any limit decided.
    pub fn count_refusal(&self, error: &SelectError) {
        if matches!(error, SelectError::AmbiguousPath { .. }) {
            self.ambiguous_paths.fetch_add(1, Relaxed);
        }
    }

    /// Counts a permit or a reservation whose token could not be sealed.
    #[cold]
    pub(crate) fn count_withheld_token(&self) {
        self.withheld_tokens.fetch_add(1, Relaxed);
    }

    /// Counts a request that got an error with this code instead of a decision.
    #[cold]
    pub fn count_error(&self, code: &'static str) {
        *self.errors.lock().entry(code).or_default() += 1;
    }

    /// Keys that have used most of a limit.
    pub const fn usage(&self) -> &Arc<UsageWatch> {
        &self.usage
    }

    /// The metrics of the limits that requests bring along.
    pub const fn inline(&self) -> &Arc<InlineMetrics> {
        &self.inline
    }

    /// The metrics of the limits of the active configuration, then those of limits that requests
    /// bring along. No name is listed twice.
    pub fn limits(&self) -> Vec<Arc<LimitMetrics>> {
        let mut limits = self.limits.lock().clone();
        let configured = limits.len();
        for inline in self.inline.iter() {
            // The name may have been configured since.
            let is_same = |limit: &Arc<LimitMetrics>| limit.name() == inline.name();
            if !limits[..configured].iter().any(is_same) {
                limits.push(inline.clone());
            }
        }
        limits
    }

    /// Adds a decision's duration to the histogram.
    pub fn observe_decision(&self, duration: Micros) {
        self.durations.observe(seconds(duration));
    }

    /// The durations of all decisions so far.
    pub fn durations(&self) -> DurationBuckets {
        DurationBuckets::from(&self.durations)
    }

    /// The outcomes of each limit so far, by its name.
    pub fn outcomes(&self) -> BTreeMap<Arc<str>, OutcomeCounts> {
        let limits = self.limits().into_iter();
        limits
            .map(|limit| (limit.name().clone(), limit.counts().outcomes()))
            .collect()
    }

    /// Replaces the limits by those of a new configuration: the configured limits, then the
    /// overrides. Limits that are in both keep counting; the others are dropped.
    pub fn set_limits<'n>(
        &self,
        configured: impl Iterator<Item = &'n str>,
        overrides: impl IntoIterator<Item = &'n str>,
    ) -> Vec<Arc<LimitMetrics>> {
        let mut known = self.limits.lock();
        let find = |name: &str| known.iter().find(|limit| **limit.name() == *name).cloned();

        let names = configured
            .map(|name| (name, true))
            .chain(overrides.into_iter().map(|name| (name, false)));
        let limits: Vec<_> = names
            .map(|(name, is_configured)| {
                find(name).unwrap_or_else(|| Arc::new(self.new_limit(name, is_configured)))
            })
            .collect();

        let sketches = || limits.iter().filter_map(|limit| limit.keys());
        let share = ALL_BYTES_MAX / sketches().count().max(1);
        sketches().for_each(|keys| keys.set_bytes_max(share.min(LIMIT_BYTES_MAX)));

        known.clone_from(&limits);
        limits
    }

    /// Overrides have no key recipe to display their keys with, so their keys are not recorded.
    fn new_limit(&self, name: &str, is_configured: bool) -> LimitMetrics {
        let id = self.next_id.fetch_add(1, Relaxed);
        let limit = LimitMetrics::new(id, name, is_configured);
        if self.has_keys && is_configured {
            limit.with_keys()
        } else {
            limit
        }
    }

    /// Replaces the tokens by those of a new configuration. Tokens that are in both keep counting.
    pub fn set_tokens<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) -> TokenCounts {
        let mut known = self.tokens.lock();
        *known = known.with_names(names);
        known.clone()
    }

    /// Writes all metrics of decisions and tokens to the page.
    pub fn write(&self, page: &mut MetricsPage) {
        let limits = self.limits();
        page.counters(
            "decisions_total",
            "Limit decisions by outcome and source",
            limits.iter().flat_map(|limit| limit.samples()),
        );
        page.counters(
            "reservations_total",
            "Reservations made, settled and cancelled through this replica, by limit",
            limits.iter().flat_map(|limit| limit.reservation_samples()),
        );
        page.counters(
            "skipped_total",
            "Requests that an optional or shadow limit did not count, because they lack its key",
            limits.iter().filter_map(|limit| limit.skip_sample()),
        );
        page.counters(
            "lockouts_total",
            "Keys locked out because this replica denied them too often, by limit",
            limits.iter().filter_map(|limit| limit.lockout_sample()),
        );
        page.add(self.durations.collect());
        page.counters(
            "ambiguous_paths_total",
            "Requests refused because servers read their path differently",
            [(vec![], to_f64(self.ambiguous_paths.load(Relaxed)))],
        );
        page.counters(
            "withheld_tokens_total",
            "Permits and reservations without a token, because the key that seals it is not known",
            [(vec![], to_f64(self.withheld_tokens.load(Relaxed)))],
        );
        let errors = self.errors.lock().clone();
        page.counters(
            "request_errors_total",
            "Requests that got an error instead of a decision, by its code",
            errors
                .iter()
                .map(|(code, count)| (vec![("code", *code)], to_f64(*count))),
        );
        page.counters(
            "requests_total",
            "Requests by token and whether it was accepted",
            self.tokens.lock().samples(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_stays_keeps_counting_and_a_removed_one_leaves_no_series() {
        let metrics = Metrics::default();
        let first = metrics.set_limits(["a", "b"].into_iter(), ["override"]);
        let second = metrics.set_limits(["b", "c"].into_iter(), ["override"]);
        assert!(Arc::ptr_eq(&first[1], &second[0]));

        let mut page = MetricsPage::new("t");
        metrics.write(&mut page);
        let text = page.into_text().expect("names and samples");
        assert!(
            text.contains(r#"t_decisions_total{limit="c",outcome="denied",source="store"} 0"#),
            "{text}"
        );
        assert!(
            !text.contains(r#"limit="a""#) && !text.contains("override"),
            "{text}"
        );
        assert!(
            text.contains("t_decision_duration_seconds_count 0"),
            "{text}"
        );
    }
}
