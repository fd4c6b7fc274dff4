//! What is asked of the store about one counter, and what it gives.

use crate::algorithm::remote::Seen;
use crate::time::Micros;

/// What a trip asks for beside the cost of its check. The store settles first, then spends the cost, then gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Take {
    /// Units more, at most, of what is left once the cost is spent.
    pub most: u64,
    /// They are lent, and count as out until they are settled; otherwise they are spent already.
    pub is_lent: bool,
    /// The name under which the store counts what we hold; 0 when we hold nothing that can be settled.
    pub generation: u64,
    /// So many units.
    pub held: u64,
    /// Of these we go on holding so many, ...
    pub keep: u64,
    /// ... and give so many back. The others are spent.
    pub back: u64,
}

/// What the store gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The counter once the trip was settled, before its cost was spent and units were given.
    pub seen: Seen,
    /// The moment on the store's timeline.
    pub at: Micros,
    /// Units more.
    pub units: u64,
    /// The name under which it counts what we hold now. In a window, which window it is.
    pub generation: u64,
    /// It still knew what we held. If not, that is worth nothing any more.
    pub is_kept: bool,
}

/// Why a trip is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// A request needs an answer.
    Ask,
    /// The lease is running low.
    Renew,
    /// The lease is not used.
    Return,
    /// The store has not been told for a while.
    Merge,
}
