//! What an outcome says of the lockout of its key.

use crate::time::Micros;

/// Whether the key of a demand is locked out, and for how long.
///
/// One word, because every outcome has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyLock {
    /// Microseconds, and the highest bit if the lockout has just begun; 0 if the key is not locked.
    word: u64,
}

impl KeyLock {
    /// The key is not locked.
    pub const NONE: Self = Self { word: 0 };
    const NEW: u64 = 1 << 63;

    /// The key is locked for this time. `is_new` if the demand itself has caused it.
    pub const fn new(rest: Micros, is_new: bool) -> Self {
        let flag = if is_new { Self::NEW } else { 0 };
        Self {
            word: rest.get() | flag,
        }
    }

    /// How long the key is still locked; `None` if it is not.
    pub fn rest(self) -> Option<Micros> {
        let rest = Micros::new(self.word & !Self::NEW);
        (rest > Micros::ZERO).then_some(rest)
    }

    /// True when the demand has caused the lockout.
    pub const fn is_new(self) -> bool {
        self.word & Self::NEW != 0
    }
}
