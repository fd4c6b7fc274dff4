//! The open connections of a port: how many there are, and which has been idle for longest.
//!
//! A request does not touch the table. A connection notes in its own progress when its last
//! request ended; the table learns of it at the connection's next tick, or when it looks for an
//! idle connection. So the table may believe that a connection has been idle for longer than it
//! has, but never the opposite.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::progress::ConnectionProgress;

/// The most connections beyond `connections_max`, for which no idle connection could be evicted.
/// Only health probes are answered on them.
const RESERVE: usize = 128;
/// The most connections that are being evicted at the same time.
const EVICTING_MAX: usize = 128;
/// The most entries that are looked at to find an idle connection.
const STEPS_MAX: usize = 64;

/// The open connections of a port.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    connections_max: usize,
    /// A clock that advances with every new connection and every end of a request. It orders idle
    /// connections without reading the time.
    ticks: AtomicU64,
    evicted: AtomicU64,
    entries: Mutex<ConnectionEntries>,
    /// Notified when an evicted connection has ended.
    eviction_ended: Notify,
}

#[derive(Debug, Default)]
struct ConnectionEntries {
    /// Every connection that is not being evicted; first the one that was idle for longest when
    /// last looked at.
    by_idle: BTreeMap<IdleKey, Arc<ConnectionState>>,
    /// Connections that are being evicted.
    evicting: usize,
}

/// When a connection became idle, in ticks of the table; then its number, which makes it unique.
type IdleKey = (u64, u64);

/// What a connection shares with the table.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// The connection's number, in the order of arrival.
    id: u64,
    /// The first part of the connection's key. Written only while the table is locked.
    recorded: AtomicU64,
    pub(super) progress: Mutex<ConnectionProgress>,
    /// Notified when the connection must end, to make room for another.
    pub(super) eviction: Notify,
}

/// Whether there is room for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRoom {
    /// There is.
    Regular,
    /// There is none, and no idle connection to evict: only health probes are answered.
    Reserved,
}

impl ConnectionTable {
    pub(super) fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            ticks: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            entries: Mutex::default(),
            eviction_ended: Notify::new(),
        }
    }

    /// The number of open connections.
    pub(super) fn open(&self) -> usize {
        self.entries.lock().open()
    }

    /// The number of connections evicted so far.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Advances the table's clock.
    pub(super) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Relaxed)
    }

    /// Adds a connection. If there are too many, the longest idle one is evicted. None if the
    /// reserve is used up, too.
    pub(super) fn insert(&self) -> Option<(Arc<ConnectionState>, ConnectionRoom)> {
        let now = self.tick();
        let state = Arc::new(ConnectionState::new(now));
        let mut entries = self.entries.lock();

        while entries.by_idle.len() >= self.connections_max && entries.evict(now) {
            self.evicted.fetch_add(1, Relaxed);
        }
        if entries.by_idle.len() >= self.connections_max + RESERVE {
            return None;
        }

        let room = if entries.by_idle.len() < self.connections_max {
            ConnectionRoom::Regular
        } else {
            ConnectionRoom::Reserved
        };
        entries.by_idle.insert(state.key(), state.clone());
        Some((state, room))
    }

    /// Whether a reserved connection can become a regular one by now.
    pub(super) fn has_room(&self) -> bool {
        self.entries.lock().by_idle.len() <= self.connections_max
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&self, state: &ConnectionState) {
        let mut entries = self.entries.lock();
        if entries.by_idle.remove(&state.key()).is_none() {
            entries.evicting -= 1;
            self.eviction_ended.notify_one();
        }
    }

    /// Whether a connection that is being evicted has to end. If a request has arrived in the
    /// meantime, the connection stays.
    pub(super) fn confirm_eviction(&self, state: &Arc<ConnectionState>) -> bool {
        let mut entries = self.entries.lock();
        if state.idle_since().is_some() {
            return true;
        }

        entries.evicting -= 1;
        entries.insert(state.clone(), self.ticks.load(Relaxed));
        self.eviction_ended.notify_one();
        false
    }

    /// Waits while too many connections are being evicted, so that their number has a bound. Only
    /// one task may wait.
    pub(super) async fn wait_for_evictions(&self) {
        while self.entries.lock().evicting >= EVICTING_MAX {
            self.eviction_ended.notified().await;
        }
    }

    /// Updates since when the table believes a connection to be idle.
    pub(super) fn refresh(&self, state: &ConnectionState) {
        let now = self.ticks.load(Relaxed);
        let idle_since = state.idle_since().unwrap_or(now);
        if state.recorded.load(Relaxed) == idle_since {
            return;
        }

        let mut entries = self.entries.lock();
        if let Some(state) = entries.by_idle.remove(&state.key()) {
            entries.insert(state, idle_since);
        }
    }

    /// Evicts up to `count` idle connections, for example when the process is out of files.
    pub(super) fn evict(&self, count: usize) {
        let now = self.tick();
        let mut entries = self.entries.lock();
        for _ in 0..count {
            if !entries.evict(now) {
                return;
            }
            self.evicted.fetch_add(1, Relaxed);
        }
    }
}

impl ConnectionEntries {
    fn open(&self) -> usize {
        self.by_idle.len() + self.evicting
    }

    fn insert(&mut self, state: Arc<ConnectionState>, idle_since: u64) {
        state.recorded.store(idle_since, Relaxed);
        self.by_idle.insert(state.key(), state);
    }

    /// Evicts the connection that has been idle for longest. False if none was found.
    ///
    /// The first entry is the right one if it is up to date. If not, it moves back to its place.
    /// That happens only to connections used since their last tick, and only to some: then the
    /// longest idle of those looked at is evicted.
    fn evict(&mut self, now: u64) -> bool {
        let mut found: Option<IdleKey> = None;

        for _ in 0..STEPS_MAX {
            let Some(((recorded, _), state)) = self.by_idle.pop_first() else {
                break;
            };
            let idle_since = state.idle_since();
            if idle_since == Some(recorded) {
                self.end(&state);
                return true;
            }

            self.insert(state.clone(), idle_since.unwrap_or(now));
            if idle_since.is_some() {
                found = Some(found.map_or(state.key(), |key| key.min(state.key())));
            }
        }

        let state = found.and_then(|key| self.by_idle.remove(&key));
        state.inspect(|state| self.end(state)).is_some()
    }

    /// Asks a connection to end.
    fn end(&mut self, state: &ConnectionState) {
        self.evicting += 1;
        state.eviction.notify_one();
    }
}

impl ConnectionState {
    fn new(now: u64) -> Self {
        Self {
            id: now,
            recorded: AtomicU64::new(now),
            progress: Mutex::new(ConnectionProgress::new(now)),
            eviction: Notify::new(),
        }
    }

    fn key(&self) -> IdleKey {
        (self.recorded.load(Relaxed), self.id)
    }

    /// When the connection became idle; none while a request is in flight.
    fn idle_since(&self) -> Option<u64> {
        let progress = self.progress.lock();
        progress.is_evictable().then_some(progress.idle_since)
    }
}

#[cfg(test)]
mod tests;
