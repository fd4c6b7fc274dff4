//! What is counted, for Prometheus. Labels are names of the configuration, never keys of clients,
//! so their number is bounded.
//!
//! Owns counters and their page, and beside them a short list of who is refused most, which never
//! becomes a label. Nothing is registered anywhere: a page is written from what there is when
//! someone asks, so limits that are gone leave nothing behind.

mod denied_keys;
mod duration;
mod limit;
mod page;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;
use tollgate::Micros;

pub(crate) use self::denied_keys::{DeniedKey, DeniedKeys};
pub(crate) use self::duration::DurationBuckets;
use self::duration::DurationHistogram;
pub(crate) use self::limit::{LimitCounts, LimitMetrics, OutcomeCounts, SOURCES};
pub(crate) use self::page::{CONTENT_TYPE, MetricsPage, exact, seconds};

/// Everything that is counted about decisions.
#[derive(Debug)]
pub(crate) struct Metrics {
    durations: DurationHistogram,
    /// The limits in force.
    limits: Mutex<Vec<Arc<LimitMetrics>>>,
    /// What the next limit is known by.
    next: AtomicU32,
    denied_keys: Arc<DeniedKeys>,
}

impl Metrics {
    /// Nothing counted yet.
    pub(crate) fn new() -> Self {
        Self {
            durations: DurationHistogram::new(),
            limits: Mutex::default(),
            next: AtomicU32::new(1),
            denied_keys: Arc::default(),
        }
    }

    /// Who is refused most, while someone wants to know.
    pub(crate) const fn denied_keys(&self) -> &Arc<DeniedKeys> {
        &self.denied_keys
    }

    /// The meters of the limits in force.
    pub(crate) fn limits(&self) -> Vec<Arc<LimitMetrics>> {
        self.limits.lock().clone()
    }

    /// A decision took so long.
    pub(crate) fn decided(&self, took: Micros) {
        self.durations.count(took);
    }

    /// How long decisions took so far.
    pub(crate) fn durations(&self) -> DurationBuckets {
        self.durations.so_far()
    }

    /// What each limit in force has said so far.
    pub(crate) fn outcomes(&self) -> BTreeMap<Arc<str>, OutcomeCounts> {
        self.limits
            .lock()
            .iter()
            .map(|meter| (meter.name().clone(), meter.outcomes()))
            .collect()
    }

    /// The meters of these limits, which are now in force: those of the file, then those that
    /// requests may bring. Metrics that stay go on counting, others are given up.
    pub(crate) fn set_limits<'n>(
        &self,
        of_file: impl Iterator<Item = &'n str>,
        brought: impl IntoIterator<Item = &'n str>,
    ) -> Vec<Arc<LimitMetrics>> {
        let mut known = self.limits.lock();
        let find = |name: &str| known.iter().find(|meter| **meter.name() == *name).cloned();
        let names = of_file
            .map(|name| (name, true))
            .chain(brought.into_iter().map(|name| (name, false)));
        let wanted: Vec<_> = names
            .map(|(name, is_of_file)| {
                let new = || LimitMetrics::new(self.next.fetch_add(1, Relaxed), name, is_of_file);
                find(name).unwrap_or_else(|| Arc::new(new()))
            })
            .collect();
        known.clone_from(&wanted);
        wanted
    }

    /// Everything counted here.
    pub(crate) fn write(&self, page: &mut MetricsPage) {
        page.counter(
            "decisions_total",
            "What limits said, by how they came to it",
        );
        for meter in self.limits.lock().iter() {
            meter.write(page);
        }
        self.durations.write(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_stays_goes_on_counting_and_one_that_goes_leaves_nothing() {
        let meters = Metrics::new();
        let first = meters.set_limits(["a", "b"].into_iter(), ["override"]);
        let second = meters.set_limits(["b", "c"].into_iter(), ["override"]);
        assert!(Arc::ptr_eq(&first[1], &second[0]));
        let mut page = MetricsPage::new("t");
        meters.write(&mut page);
        let text = page.into_text().expect("names and lines");
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
