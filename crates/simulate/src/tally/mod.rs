//! What is counted while a log is replayed: bounded, whatever the length of the log and the number
//! of its keys.

mod keys;
mod limit;
mod lines;
mod timeline;

pub(crate) use keys::{KeyRefusals, KeyTable};
pub(crate) use limit::LimitTally;
pub(crate) use lines::LineTally;
pub(crate) use timeline::{Counts, Timeline};
