//! The path that every front takes: attributes -> demands -> spend -> decision.
//!
//! Owns the active configuration, the limiter and the store, and replaces the configuration on
//! reload. Knows nothing of HTTP or gRPC.

mod access;
mod active;
mod decide;
mod inline;
mod inspect;
mod operations;
mod permit;
mod reserve;
mod snapshot_file;
mod store;

pub(crate) use access::{AccessError, Caller};
pub(crate) use active::{ActiveConfig, CheckOptions, DecideError, OVERRIDES, THROTTLE};
pub(crate) use decide::{Gate, GateDecision};
pub(crate) use inspect::GateInspection;
pub(crate) use operations::{StoreSigns, StoreState};
pub(crate) use permit::{PERMIT_HEADER_MAX, PermitTokenError};
pub(crate) use reserve::{GateSettlement, SettledCost};
pub(crate) use store::{OpenStore, StoreOpenError};
