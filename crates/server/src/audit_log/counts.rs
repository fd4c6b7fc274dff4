//! How many lines were written and dropped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct AuditLineCounts {
    pub(super) written: AtomicU64,
    /// There were more lines than the bound allows.
    pub(super) over_rate: AtomicU64,
    /// The output was read too slowly, and the queue was full.
    pub(super) queue_full: AtomicU64,
    /// The output failed, as on a full disk.
    pub(super) output_failed: AtomicU64,
}

impl AuditLineCounts {
    /// The dropped lines by the label `reason`.
    pub(super) fn dropped(&self) -> [(&'static str, u64); 3] {
        [
            ("rate", self.over_rate.load(Relaxed)),
            ("queue", self.queue_full.load(Relaxed)),
            ("output", self.output_failed.load(Relaxed)),
        ]
    }

    pub(super) fn dropped_total(&self) -> u64 {
        self.dropped().iter().map(|(_, count)| count).sum()
    }
}
