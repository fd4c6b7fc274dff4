//! The path that every front takes: attributes -> demands -> spend -> decision.
//!
//! Owns the active configuration, the limiter and the store, and replaces the configuration on
//! reload. Knows no sockets: the service puts ports in front of it, the clients for other languages
//! call it in their process.

pub mod api;
pub mod metrics;
pub mod records;
pub mod top_keys;

mod access;
mod act;
mod actions;
mod actions_file;
mod active;
mod decide;
mod denial;
mod direct;
mod gate;
mod inline;
mod inspect;
mod operations;
mod overrides;
mod permit;
mod refund;
mod reserve;
mod sealing_keys;
mod snapshot_file;
mod state_file;
mod store;
mod top;
mod trace;

pub use access::{AccessError, Caller};
pub use act::{ActError, ActionDraft, ListedAction};
pub use actions::{
    ACTION_MAX_AGE, ACTIONS_MAX, Action, ActionChange, ActionKind, ActionTarget, BlockStatus,
    Multiple, QuotaChange, QuotaChangeError,
};
pub use actions_file::ActionsFileError;
pub use active::{ActiveConfig, DecideError};
pub use decide::{CheckOptions, GateDecision};
pub use denial::{Denial, DenialObserver, RequestOrigin};
pub use direct::DirectLimit;
pub use gate::Gate;
pub use operations::{StoreSigns, StoreState};
pub use overrides::{MULTIPLE, OVERRIDE_UNITS, OVERRIDES, THROTTLE};
pub use permit::{PERMIT_HEADER_MAX, PermitTokenError};
pub use reserve::{GateSettlement, SettledCost};
pub use store::{OpenStore, StoreOpenError};
pub use top::{TopKey, TopQuery};
