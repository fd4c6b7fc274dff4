//! What a remote store needs to know about a quota.
//!
//! The store's script decides with a few [`ScriptNumbers`] and additions only, and returns the
//! [`CounterState`] it found. The outcome is computed here from that state, by the same arithmetic
//! as in the memory store. So both stores give the same outcomes, and the scripts stay small.

pub use crate::algorithm::remote::{
    BucketState, CounterAmount, CounterState, DrainTime, EntryTotals, LendingNumbers, LockoutState,
    ScriptNumbers, SlidingCounts, WindowCount,
};
