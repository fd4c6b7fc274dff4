//! How many lines were written and dropped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a line was dropped: the values of the label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// There were more lines than the bound allows.
    Rate,
    /// The output was read too slowly, and the queue was full.
    Queue,
    /// The output failed, as on a full disk.
    Output,
}

impl DropReason {
    pub(super) const ALL: [Self; 3] = [Self::Rate, Self::Queue, Self::Output];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::Output => "output",
        }
    }
}

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct AuditLineCounts {
    pub(super) written: AtomicU64,
    /// In the order of [`DropReason::ALL`].
    pub(super) dropped: [AtomicU64; DropReason::ALL.len()],
}

impl AuditLineCounts {
    pub(super) fn drop_lines(&self, reason: DropReason, lines: u64) {
        self.dropped[reason as usize].fetch_add(lines, Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.iter().map(|count| count.load(Relaxed)).sum()
    }
}
