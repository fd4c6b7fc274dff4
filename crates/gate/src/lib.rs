//! The path that every front takes: attributes -> demands -> spend -> decision.
//!
//! Owns the active configuration, the limiter and the store, and replaces the configuration on
//! reload. Knows no sockets: the service puts ports in front of it, the clients for other languages
//! call it in their process.

pub mod api;
pub mod metrics;
pub mod records;

mod access;
mod active;
mod decide;
mod inline;
mod inspect;
mod operations;
mod overrides;
mod permit;
mod reserve;
mod snapshot_file;
mod store;
mod trace;
mod usage_alert;

pub use access::{AccessError, Caller};
pub use active::{ActiveConfig, CheckOptions, DecideError, DirectLimit};
pub use decide::{Gate, GateDecision};
pub use inspect::GateInspection;
pub use operations::{StoreSigns, StoreState};
pub use overrides::{OVERRIDES, THROTTLE};
pub use permit::{PERMIT_HEADER_MAX, PermitTokenError};
pub use reserve::{GateSettlement, SettledCost};
pub use store::{OpenStore, StoreOpenError};
