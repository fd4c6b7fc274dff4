//! The memory store: no setup, no network, bounded memory.
//!
//! A key is recognized by a randomly seeded fingerprint. Its shard has two places for counters:
//!
//! - **Slots**, for states of a fixed size: windows and buckets. A slot is five atomic words, found
//!   by open addressing.
//! - **A map behind a mutex**, for all other states: hit logs, permits, lockouts. Reservations are
//!   there too.
//!
//! # Protocol
//!
//! Every shard has a *sequence word*. Even, it is the version of the slots; odd, one thread *holds*
//! the shard and may change them (`sequence.rs`).
//!
//! 1. **One demand on a known slot** takes no lock (`decide.rs`). The thread reads the version,
//!    finds the slot, reads its words and evaluates them. A denial or a peek checks that the
//!    version is still the same, and has written nothing. A charge makes the version odd by a
//!    compare-exchange, which fails if anything has changed since it was read, stores the words and
//!    makes it even. So the evaluation is outside the critical section, which is a handful of
//!    stores.
//! 2. **Everything else** locks the mutex of the shard first: new keys, states in the map,
//!    lockouts, reservations, refunds, eviction, sweeps and snapshots. It holds the shard from its
//!    first access to a slot until it unlocks, which excludes the threads without the lock. Only
//!    such a thread adds, moves or removes slots.
//! 3. **A request over several demands** locks their shards in ascending order, evaluates all
//!    demands while it holds the shards, and commits all of them or none (`counters.rs`). So no
//!    thread ever sees a charge of a request that fails.
//!
//! A thread without the lock that loses to others several times takes the lock. A thread that waits
//! for a version spins, then yields. There is no deadlock: a thread without the mutex holds one
//! shard and waits for nothing; mutexes are locked in ascending order, or tried (eviction).
//!
//! A reader may read a slot while it is written. Then the words are of several versions, so they
//! are evaluated without effect and discarded: the evaluation must not panic on any words, and the
//! search must end without a vacant slot. The words stay in memory, because a table that grows adds
//! segments and moves its counters into them, and frees nothing (`table.rs`).
//!
//! The tests of the protocol compile `sequence.rs` with the atomics of loom, which tries every
//! interleaving and every reordering that the memory model allows.
//!
//! # At the cap
//!
//! The limit that uses most makes room, so no limit can evict the counters of another that is
//! within its share. Of its keys, those with the most quota left are evicted first, because their
//! loss changes least; keys that have used up their quota are evicted last, and permits in flight
//! never.

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
