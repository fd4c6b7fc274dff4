//! A mutex for critical sections of some tens of nanoseconds.

use parking_lot::{Mutex, MutexGuard};

/// A mutex on cache lines of its own, so that neighbouring mutexes do not share a line (no false
/// sharing).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct PaddedMutex<T>(Mutex<T>);

pub(crate) type PaddedGuard<'a, T> = MutexGuard<'a, T>;

/// How often a contended lock is retried, at growing intervals, before the thread parks. Parking
/// and waking take microseconds, much longer than the lock is held.
const SPINS: u32 = 7;

impl<T> PaddedMutex<T> {
    #[inline(always)]
    pub(crate) fn lock(&self) -> PaddedGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    #[cold]
    fn lock_contended(&self) -> PaddedGuard<'_, T> {
        for spin in 0..SPINS {
            (0..16 << spin).for_each(|_| std::hint::spin_loop());
            if let Some(guard) = self.0.try_lock() {
                return guard;
            }
        }
        self.0.lock()
    }
}
