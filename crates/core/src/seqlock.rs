//! A sequence lock: words that one thread writes and any number of threads read without writing.

use std::array;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Words that are read together. A reader writes nothing, so readers on different cores do not
/// slow each other down.
#[derive(Debug)]
pub(crate) struct SeqLock<const WORDS: usize> {
    /// Odd while a write is in progress.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Default for SeqLock<WORDS> {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            words: array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const WORDS: usize> SeqLock<WORDS> {
    /// The words of one write, and its version; `None` if another write is in progress or has just
    /// ended.
    #[inline(always)]
    pub(crate) fn read(&self) -> Option<([u64; WORDS], u64)> {
        let version = self.version.load(Acquire);
        let words = array::from_fn(|index| self.words[index].load(Relaxed));

        // The words are read before the version is read again.
        fence(Acquire);
        let is_unchanged = self.version.load(Relaxed) == version;
        (is_unchanged && version.is_multiple_of(2)).then_some((words, version))
    }

    /// True when no write has begun since this version was read.
    #[inline(always)]
    pub(crate) fn is_at(&self, version: u64) -> bool {
        self.version.load(Relaxed) == version
    }

    /// The first word, which may belong to another write than the words of [`read`](Self::read).
    #[inline(always)]
    pub(crate) fn first(&self) -> u64 {
        self.words[0].load(Relaxed)
    }

    /// Replaces the words. Callers exclude each other by a lock of their own.
    pub(crate) fn write(&self, words: [u64; WORDS]) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        // The version is odd before any word changes.
        fence(Release);

        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.version.store(version.wrapping_add(2), Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_reader_never_sees_parts_of_two_writes() {
        let (lock, is_done) = (SeqLock::<8>::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut latest = 0;
                        while !is_done.load(Relaxed) {
                            let Some((words, _)) = lock.read() else {
                                continue;
                            };
                            assert_eq!(words, [words[0]; 8], "parts of two writes");
                            assert!(words[0] >= latest, "an earlier write after a later one");
                            latest = words[0];
                        }
                    })
                })
                .collect();

            (1..=200_000).for_each(|number| lock.write([number; 8]));
            is_done.store(true, Relaxed);
            readers
                .into_iter()
                .for_each(|reader| reader.join().unwrap());
        });
        let (words, version) = lock.read().unwrap();
        assert_eq!(words, [200_000; 8]);
        assert!(lock.is_at(version) && !lock.is_at(version + 2));
    }

    #[test]
    fn nothing_is_read_during_a_write() {
        let lock = SeqLock::<2>::default();
        lock.version.store(1, Relaxed);
        assert_eq!(lock.read(), None);
    }
}
