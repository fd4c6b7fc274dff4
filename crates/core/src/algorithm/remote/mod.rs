//! What a remote store needs to know about a quota: see [`store::remote`](crate::store::remote).

mod numbers;
mod state;

pub use super::entries::EntryTotals;
pub use super::fixed_window::WindowCount;
pub use super::gcra::BucketState;
pub use super::lockout::LockoutState;
pub use super::sliding_window::SlidingCounts;
pub use numbers::{CounterAmount, DrainTime, LendingNumbers, ScriptNumbers};
pub use state::CounterState;
