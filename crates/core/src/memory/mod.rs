//! The memory store.

mod atomics;
mod builder;
mod context;
mod counters;
mod decide;
mod evict;
mod inspect;
mod key_cap;
mod large;
mod limit_usage;
mod lockouts;
mod reservations;
mod reserve;
mod sequence;
mod shard;
mod slot;
mod small;
mod snapshot;
mod store;
mod table;

pub use builder::{KEYS_MAX_DEFAULT, MemoryStoreBuilder};
pub use limit_usage::Evictions;
pub use snapshot::SnapshotError;
pub use store::MemoryStore;

#[cfg(test)]
mod tests;
