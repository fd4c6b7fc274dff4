//! What a remote store needs to know about a quota.
//!
//! The store's script decides with a few [`ScriptNumbers`] and additions only, and returns the
//! [`CounterState`] it found. The outcome is computed here from that state, by the same arithmetic
//! as in the memory store. So both stores give the same outcomes, and the scripts stay small.

mod numbers;
mod state;

pub use super::entries::EntryTotals;
pub use super::fixed_window::WindowCount;
pub use super::gcra::BucketState;
pub use super::sliding_window::SlidingCounts;
pub use numbers::{DrainTime, LendingNumbers, ScriptNumbers};
pub use state::CounterState;
