//! What is counted, for Prometheus. Labels are names of the configuration, never keys of clients, so their number is
//! bounded.

mod limit;

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};
use tollgate::Micros;

pub(crate) use limit::LimitMeter;

/// Upper bounds of the decision times, in seconds: from memory's to a store's that is barely there.
const SECONDS: [f64; 14] =
    [2e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1];

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Meters {
    registry: Registry,
    decisions: IntCounterVec,
    durations: Histogram,
    /// The limits that were ever in force, so that one that comes back goes on counting.
    limits: Mutex<Vec<Arc<LimitMeter>>>,
}

impl Meters {
    /// Nothing counted yet; every name begins with `prefix`.
    pub(crate) fn new(prefix: &str) -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some(prefix.to_owned()), None)?;
        let decisions = IntCounterVec::new(
            Opts::new("decisions_total", "What limits said, by how they came to it"),
            &["limit", "outcome", "source"],
        )?;
        let durations = Histogram::with_opts(
            HistogramOpts::new("decision_duration_seconds", "How long decisions took, in seconds")
                .buckets(SECONDS.to_vec()),
        )?;
        registry.register(Box::new(decisions.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        Ok(Self { registry, decisions, durations, limits: Mutex::default() })
    }

    pub(crate) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A decision took so long.
    pub(crate) fn decided(&self, took: Micros) {
        // Below 2^53 microseconds, which is 285 years, this is exact.
        #[expect(clippy::cast_precision_loss, reason = "decisions take less than 285 years")]
        self.durations.observe(took.get() as f64 / 1e6);
    }

    /// The meters of these limits; those of others are given up, so that names of the past do not gather.
    pub(crate) fn limits<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Arc<LimitMeter>> {
        let mut known = self.limits.lock();
        let find = |name: &str| known.iter().find(|meter| meter.name() == name).cloned();
        let wanted: Vec<_> = names
            .map(|name| find(name).unwrap_or_else(|| Arc::new(LimitMeter::new(name, &self.decisions))))
            .collect();
        for gone in known.iter().filter(|old| !wanted.iter().any(|meter| meter.name() == old.name())) {
            gone.remove_from(&self.decisions);
        }
        known.clone_from(&wanted);
        wanted
    }
}
