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
mod active;
mod decide;
mod denial;
mod inline;
mod inspect;
mod operations;
mod permit;
mod reserve;
mod snapshot_file;
mod store;
mod top;
mod trace;

pub use access::{AccessError, Caller};
pub use active::{ActiveConfig, CheckOptions, DecideError, DirectLimit, OVERRIDES, THROTTLE};
pub use decide::{Gate, GateDecision};
pub use denial::{Denial, DenialObserver, RequestOrigin};
pub use inspect::GateInspection;
pub use operations::{StoreSigns, StoreState};
pub use permit::{PERMIT_HEADER_MAX, PermitTokenError};
pub use reserve::{GateSettlement, SettledCost};
pub use store::{OpenStore, StoreOpenError};
pub use top::{TopKey, TopQuery};
