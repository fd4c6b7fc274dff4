//! A lock for what is held for some tens of nanoseconds.

use parking_lot::{Mutex, MutexGuard};

/// Something behind a lock, on cache lines of its own so that neighbours do not slow each other
/// down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(Mutex<T>);

pub(crate) type Guard<'a, T> = MutexGuard<'a, T>;

/// How often a taken lock is tried, at growing distances, before the thread goes to sleep for it:
/// that takes microseconds.
const SPINS: u32 = 7;

impl<T> Padded<T> {
    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    /// What is behind it, for whoever has it alone.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Nothing while somebody else has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn lock_contended(&self) -> Guard<'_, T> {
        for spin in 0..SPINS {
            (0..16 << spin).for_each(|_| std::hint::spin_loop());
            if let Some(held) = self.0.try_lock() {
                return held;
            }
        }
        self.0.lock()
    }
}
