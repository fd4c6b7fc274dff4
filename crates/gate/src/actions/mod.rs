//! What operators do while the service runs: block, exempt and override keys, and switch limits to
//! shadow.
//!
//! An [`Action`] is a record that all replicas share. Each replica builds an [`ActionTable`] from all
//! of them for its active configuration. The table is applied between selection and spending, in
//! one place ([`AppliedRequest`]), so that every front has it.

mod action;
mod active;
mod applied;
mod log;
mod quota_change;
mod record;
mod table;

pub use self::action::{
    ACTION_MAX_AGE, ACTIONS_MAX, Action, ActionChange, ActionKind, ActionTarget, BlockStatus,
};
pub(crate) use self::active::ActiveActions;
pub(crate) use self::applied::AppliedRequest;
pub(crate) use self::log::{ActionLog, LogEntry, LogState, StoreRepair};
pub use self::quota_change::{Multiple, QuotaChange, QuotaChangeError};
pub(crate) use self::record::mark;
pub(crate) use self::table::ActionTable;

#[cfg(test)]
mod tests;
