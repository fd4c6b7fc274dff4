//! The atomics of the sequence word; the model of the protocol replaces them by those of loom.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Waits a moment for another thread: spins a few times, then gives up the processor.
pub(super) fn pause(attempt: u32) {
    /// A writer holds a shard for some nanoseconds, unless it was preempted.
    const SPINS: u32 = 6;
    if attempt < SPINS {
        (0..1 << attempt).for_each(|_| std::hint::spin_loop());
    } else {
        std::thread::yield_now();
    }
}
