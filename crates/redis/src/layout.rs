//! The version of what is stored: replicas of two versions never share a store.
//!
//! A version of Tollgate that stores something else under the same names, or the same under other
//! names, would count apart from the replicas before it, and both would admit the whole limit. So
//! one record of the store names the version that may use it. An instance uses the store only while
//! it has found its own version there, and renews the record. It gives way to another version, and
//! waits until the record of that version has expired.
//!
//! A store that lost its data lost the record, too. Then the instances that were using the store put
//! it again. If another version was faster, the version that began to use the store later gives way.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tollgate::StoreError;

use crate::RedisStore;
use crate::error::{CallError, ServerError};
use crate::log;
use crate::records::{Record, RecordBounds, RecordError, RecordRevision};
use crate::store::LeaseCaller;

/// The version of what this version of Tollgate stores. It must change with the names of keys and
/// with what they contain.
pub const LAYOUT: &str = "2";

/// The record of the version in use.
const LAYOUTS: RecordBounds = RecordBounds {
    group: "layout",
    records_max: 16,
    text_max: 64,
};
/// The id of the record.
const IN_USE: &str = "in use";
/// How long a version counts as in use after its last instance has renewed the record.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(120);
/// An instance renews the record this often before it expires.
const RENEWALS: u32 = 12;
/// How soon an instance that may not use the store yet tries again.
const CLAIM_EVERY: Duration = Duration::from_millis(10);
/// How soon a renewal that failed is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How often an instance tries to be the first of its version.
const ATTEMPTS_MAX: u32 = 3;

/// Why an instance may not use a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Replicas of another version use the store.
    #[error(
        "the store is in use by a version of Tollgate that stores counters differently (layout \
         {found}, this one has {own}): stop those replicas and wait two minutes, or use another \
         `prefix`"
    )]
    #[non_exhaustive]
    Other {
        /// The version of the others.
        found: String,
        /// The version of this instance.
        own: &'static str,
    },
    /// The store is unavailable.
    #[error(transparent)]
    Store(#[from] RecordError),
}

/// Whether this instance may use the store.
pub(crate) struct LayoutClaim {
    layout: &'static str,
    kept_for: Duration,
    /// In a cluster one server has the record and all have counters. An instance that cannot reach
    /// that one server goes on with the others.
    is_cluster: bool,
    is_held: AtomicBool,
    state: Mutex<ClaimState>,
}

#[derive(Default)]
struct ClaimState {
    /// Since when this version has used the store, and when this instance renewed the record. None
    /// while this instance may not use the store.
    held: Option<(Since, Instant)>,
    /// The version that has the store, and the end of its record.
    other: Option<(String, Instant)>,
}

/// Milliseconds since the Unix epoch.
type Since = u64;

impl LayoutClaim {
    pub(crate) fn new(layout: &'static str, kept_for: Duration, is_cluster: bool) -> Self {
        Self {
            layout,
            kept_for,
            is_cluster,
            is_held: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// True when this instance may use the store.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Acquire)
    }

    /// Fails if this instance may not use the store, or does not know yet.
    pub(crate) fn require(&self) -> Result<(), CallError> {
        if self.is_held() {
            return Ok(());
        }
        Err(match self.other() {
            Some(error) => CallError::Refused(ServerError::new(error.to_string())),
            None => CallError::NotSent(ServerError::new(
                "this instance has not found out yet whether another version uses the store",
            )),
        })
    }

    /// Why this instance must not use the store.
    pub(crate) fn other(&self) -> Option<LayoutError> {
        let found = self.state.lock().other.as_ref()?.0.clone();
        let own = self.layout;
        Some(LayoutError::Other { found, own })
    }

    /// True when the records are those of this module, which an instance may always use.
    pub(crate) fn is_about(bounds: &RecordBounds) -> bool {
        bounds.group == LAYOUTS.group
    }

    /// Compares the records of the store with this version. Returns the text of a record to put, and
    /// whether the version has such a record; or fails if this version must give way.
    fn compare(&self, records: &[Record]) -> Result<(Since, bool), LayoutError> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let parsed = records.iter().map(|record| (record, parse(&record.text)));
        let (own, others): (Vec<_>, Vec<_>) =
            parsed.partition(|(_, (layout, _))| *layout == self.layout);

        let own_since = own.iter().map(|(_, (_, since))| *since);
        let held_since = state.held.map(|(since, _)| since);
        let since = own_since.chain(held_since).min();
        // A version that uses the store gives way to those that did before it.
        let is_before = |other: (&str, Since)| match held_since.and(since) {
            Some(since) => (other.1, other.0) < (since, self.layout),
            None => true,
        };
        let other = others.into_iter().find(|(_, other)| is_before(*other));
        if let Some((record, (layout, _))) = other {
            state.other = Some((layout.to_owned(), now + record.expires_after));
        }
        // A record that is missing before its end was lost, and is put again.
        state.other.take_if(|(_, until)| *until <= now);

        drop(state);
        match self.other() {
            Some(error) => Err(error),
            None => Ok((since.unwrap_or_else(unix_millis), !own.is_empty())),
        }
    }

    fn set_held(&self, since: Since) {
        self.state.lock().held = Some((since, Instant::now()));
        self.is_held.store(true, Release);
    }

    /// Takes note of a failure. An instance whose record has expired does not use the store before it
    /// has looked for another version.
    fn note_failure(&self, error: &LayoutError) {
        let mut state = self.state.lock();
        let is_expired = |(_, at): (Since, Instant)| at.elapsed() >= self.kept_for;
        let is_over = matches!(error, LayoutError::Other { .. })
            || !self.is_cluster && state.held.is_some_and(is_expired);
        if is_over {
            state.held = None;
            self.is_held.store(false, Release);
        }
    }
}

/// The version and the time in the text of a record.
fn parse(text: &str) -> (&str, Since) {
    let (layout, since) = text.split_once(' ').unwrap_or((text, ""));
    (layout, since.parse().unwrap_or(0))
}

fn unix_millis() -> Since {
    let elapsed = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Since::try_from(elapsed.as_millis()).unwrap_or(Since::MAX)
}

impl RedisStore {
    /// Announces the version of what this instance stores. Fails if instances of another version
    /// use the store; then this one does not use it until they are gone: its calls are refused, and
    /// the limits' failure policies decide.
    ///
    /// A store announces itself in the background before it makes its first call. Call this to learn
    /// at the start of a program that it must not go on.
    pub async fn announce_layout(&self) -> Result<(), LayoutError> {
        let claim = &self.router().layout;
        match self.put_layout().await {
            Ok(since) => {
                claim.set_held(since);
                Ok(())
            }
            Err(error) => {
                claim.note_failure(&error);
                Err(error)
            }
        }
    }

    /// Puts the record with the version, unless another version has the store. Returns since when
    /// this version has used it.
    async fn put_layout(&self) -> Result<Since, LayoutError> {
        let claim = &self.router().layout;
        for _ in 0..ATTEMPTS_MAX {
            let any = RecordRevision::default();
            let list = self.read_records(&LAYOUTS, any).await?;
            let records = list.map(|list| list.records).unwrap_or_default();
            let (since, has_record) = claim.compare(&records)?;

            let text = format!("{} {since}", claim.layout);
            if has_record || claim.is_held() {
                self.put_record(&LAYOUTS, IN_USE, &text, claim.kept_for)
                    .await?;
                return Ok(since);
            }
            // Another version may start at the same time.
            let swapped = self.swap_record(&LAYOUTS, IN_USE, "", &text, claim.kept_for);
            if swapped.await? {
                return Ok(since);
            }
        }
        Err(RecordError::from(StoreError::Overloaded).into())
    }
}

/// Announces the version until the store is dropped.
pub(crate) async fn keep_announced(caller: Weak<LeaseCaller>) {
    let mut was_refused = false;
    loop {
        let Some(caller) = caller.upgrade() else {
            return;
        };
        let store = RedisStore::from_caller(caller);
        let result = store.announce_layout().await;
        let claim = &store.router().layout;
        let (is_held, renew_every) = (claim.is_held(), claim.kept_for / RENEWALS);
        drop(store);

        let is_refused = matches!(result, Err(LayoutError::Other { .. }));
        match &result {
            Err(error) if is_refused && !was_refused => log::other_layout(error),
            Ok(()) if was_refused => log::other_layout_gone(),
            _ => {}
        }
        // A store that is unavailable says nothing about the other version.
        was_refused = is_refused || was_refused && result.is_err();
        sleep(match result {
            Ok(()) | Err(LayoutError::Other { .. }) => renew_every,
            Err(LayoutError::Store(_)) if is_held => RETRY_EVERY.min(renew_every),
            Err(LayoutError::Store(_)) => CLAIM_EVERY,
        })
        .await;
    }
}

/// Starts to announce the version.
pub(crate) fn start(caller: &Arc<LeaseCaller>) {
    let runtime = &caller.router.connector.runtime;
    runtime.spawn(keep_announced(Arc::downgrade(caller)));
}
