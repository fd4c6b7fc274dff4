//! The system allocator with a byte counter that can be switched on.
//!
//! The counter adds up requested sizes. Allocator overhead per block is not included, which favours
//! subjects that allocate a block for every key. While the counter is off, a call costs one relaxed
//! load more than the system allocator, so timed runs measure the system allocator.

#![expect(
    unsafe_code,
    reason = "a global allocator is an unsafe trait; every call goes to the system's allocator"
)]
#![expect(
    clippy::unused_self,
    reason = "there is something to read only while a count runs"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

static ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);
struct CountingAllocator;

/// A running count of allocated bytes, of which there may be one at a time. Dropping it stops the
/// count.
pub(crate) struct Count(());

impl Count {
    /// Starts counting from zero, for the whole process.
    pub(crate) fn start() -> Self {
        LIVE.store(0, Relaxed);
        PEAK.store(0, Relaxed);
        ON.store(true, Relaxed);
        Self(())
    }

    /// Bytes allocated since the start and not yet freed.
    pub(crate) fn live(&self) -> u64 {
        u64::try_from(LIVE.load(Relaxed)).unwrap_or_default()
    }

    /// The largest number of live bytes since the start.
    pub(crate) fn peak(&self) -> u64 {
        u64::try_from(PEAK.load(Relaxed)).unwrap_or_default()
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        ON.store(false, Relaxed);
    }
}

#[inline]
fn add(change: isize) {
    if ON.load(Relaxed) {
        record(change);
    }
}

#[cold]
fn record(change: isize) {
    let live = LIVE.fetch_add(change, Relaxed) + change;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: every method passes its arguments to `System` unchanged and returns its result; counting
// does not touch allocated memory.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: the caller keeps `GlobalAlloc`'s contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_lives_and_what_lived() {
        // Other tests allocate and free at the same time, but far less than this.
        const BLOCK: u64 = 1 << 30;
        let count = Count::start();
        let block: Vec<u8> = Vec::with_capacity(1 << 30);
        assert!(count.live() > BLOCK / 2, "{}", count.live());
        drop(std::hint::black_box(block));
        assert!(count.live() < BLOCK / 2, "{}", count.live());
        assert!(count.peak() > BLOCK / 2);
    }
}
