//! Random traces on which a store is compared with the model, operation by operation.
//!
//! [`trace_strategy`] generates traces and shrinks failing ones; [`run_trace`] replays one.

mod operation;
mod quotas;
mod replay;
mod steps;
mod trace;

pub use operation::{OperationReply, PendingReply};
pub use quotas::{Kind, changed_quota_strategy, quota_strategy};
pub use replay::{run_trace, run_trace_in_batches};
pub use steps::{StepsBack, any_trace_strategy, trace_strategy};
pub use trace::{Act, Ask, Cost, Counter, Length, Move, Step, Trace};
