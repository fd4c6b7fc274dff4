//! Counters of a replay. Their size is bounded, whatever the length of the log and the number of
//! keys.

mod keys;
mod limit;
mod lines;
mod timeline;

pub(crate) use keys::{KeyRank, KeyTable};
pub(crate) use limit::SimulatedLimitCounts;
pub(crate) use lines::LineCounts;
pub(crate) use timeline::SimulationTimeline;
