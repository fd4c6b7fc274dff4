//! The memory store: no setup, no network, bounded memory.
//!
//! The store is a sharded table of 32-byte counters, looked up by a randomly seeded fingerprint. A
//! check of a known key does not allocate. Expired counters are dropped while the store is in use,
//! and memory is freed after a burst of new keys.
//!
//! Keys for which threads contend are decided without their lock: denials from a copy that is only
//! read, admissions from units that each thread takes in advance.
//!
//! At the cap, the limit that uses most makes room, so no limit can evict the counters of another
//! that is within its share. Of its keys, those with the most quota left are evicted first, because
//! their loss changes least; keys that have used up their quota are evicted last, and permits in
//! flight never.

mod builder;
mod context;
mod counters;
mod evict;
mod forced;
mod hot_key;
mod inspect;
mod key_cap;
mod ledger;
mod limit_usage;
mod locked_shard;
mod lockouts;
mod reservations;
mod reserve;
mod shard;
mod side_table;
mod slot;
mod slot_quota;
mod slot_table;
mod snapshot;
mod spend_one;
mod store;

pub use builder::{KEYS_MAX_DEFAULT, MemoryStoreBuilder};
pub use ledger::{CounterId, Ledger};
pub use limit_usage::Evictions;
pub use snapshot::SnapshotError;
pub use store::MemoryStore;

#[cfg(test)]
mod tests;
