//! The sequence word of a shard: the one way in which threads exclude each other from its slots.
//!
//! An even word is a version, which can be read. A writer makes it odd to hold the shard, and even
//! again, one version later, to release it.

use super::atomics::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence, pause,
};

/// The sequence word.
#[derive(Debug)]
pub(super) struct Sequence(AtomicU64);

/// An even value of the sequence word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version(u64);

/// The right to change the slots of a shard, until it is dropped.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    sequence: &'a Sequence,
    version: Version,
}

impl Sequence {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The version that can be read now; `None` while a writer holds the shard.
    #[inline(always)]
    pub(super) fn begin(&self) -> Option<Version> {
        let word = self.0.load(Acquire);
        word.is_multiple_of(2).then_some(Version(word))
    }

    /// True when everything that was read since [`begin`](Self::begin) belongs to this version.
    #[inline(always)]
    pub(super) fn is_unchanged(&self, version: Version) -> bool {
        // Whoever has read a word of a later writer sees here that the writer held the shard.
        fence(Acquire);
        self.0.load(Relaxed) == version.0
    }

    /// Holds the shard if nothing has changed since [`begin`](Self::begin).
    #[inline(always)]
    pub(super) fn try_hold(&self, version: Version) -> Option<Hold<'_>> {
        let word = version.0;
        let odd = self
            .0
            .compare_exchange(word, word.wrapping_add(1), Acquire, Relaxed);
        odd.ok()?;

        // The word is odd before any slot changes.
        fence(Release);
        Some(Hold {
            sequence: self,
            version,
        })
    }

    /// Waits for the writer that holds the shard, and holds it then.
    pub(super) fn hold(&self) -> Hold<'_> {
        for attempt in 0.. {
            if let Some(version) = self.begin()
                && let Some(hold) = self.try_hold(version)
            {
                return hold;
            }
            pause(attempt);
        }
        unreachable!("the loop has no end")
    }
}

impl Drop for Hold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let next = self.version.0.wrapping_add(2);
        self.sequence.0.store(next, Release);
    }
}
