//! The version of what is stored: replicas of two versions never share a store.
//!
//! A version of Tollgate that stores something else under the same names, or the same under other
//! names, would count apart from the replicas before it, and both would admit the whole limit. So
//! every instance puts a record with its version into the store and renews it. An instance that
//! finds another version does not use the store.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use crate::RedisStore;
use crate::records::{RecordBounds, RecordError, RecordRevision};
use crate::store::LeaseCaller;

/// The version of what this version of Tollgate stores. It must change with the names of keys and
/// with what they contain.
pub const LAYOUT: &str = "2";

/// The records of the versions in use.
const LAYOUTS: RecordBounds = RecordBounds {
    group: "layout",
    records_max: 16,
    text_max: 64,
};
/// How long a version counts as in use after its last instance has renewed it.
const KEPT_FOR: Duration = Duration::from_secs(120);
/// How often an instance renews it.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// How soon it is tried again if the store is unavailable.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Why an instance may not use a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Replicas of another version use the store.
    #[error(
        "the store is in use by a version of Tollgate that stores counters differently (layout \
         {found}, this one has {LAYOUT}): stop those replicas and wait two minutes, or use another \
         `prefix`"
    )]
    Other {
        /// The version of the others.
        found: String,
    },
    /// The store is unavailable.
    #[error(transparent)]
    Store(#[from] RecordError),
}

impl RedisStore {
    /// Announces the version of what this instance stores. Fails if instances of another version
    /// use the store; then this one does not use it from now on: its calls are refused, and the
    /// limits' failure policies decide.
    ///
    /// A store announces itself in the background as soon as it is available. Call this to learn
    /// at the start of a program that it must not go on.
    pub async fn announce_layout(&self) -> Result<(), LayoutError> {
        let known = &self.router().other_layout;
        let mut other = known.get().cloned();
        if other.is_none() {
            other = self.read_other_layout().await?;
        }
        if other.is_none() {
            self.put_record(&LAYOUTS, LAYOUT, LAYOUT, KEPT_FOR).await?;
            // Another version may have started at the same time: then both make way.
            other = self.read_other_layout().await?;
            if other.is_some() {
                self.remove_record(&LAYOUTS, LAYOUT).await?;
            }
        }
        match other {
            None => Ok(()),
            Some(found) => Err(LayoutError::Other {
                found: known.get_or_init(|| found).clone(),
            }),
        }
    }

    async fn read_other_layout(&self) -> Result<Option<String>, RecordError> {
        let any = RecordRevision::default();
        let list = self.read_records(&LAYOUTS, any).await?;
        let records = list.map(|list| list.records).unwrap_or_default();
        let mut ids = records.into_iter().map(|record| record.id);
        Ok(ids.find(|id| id != LAYOUT))
    }
}

/// Announces the version until the store is dropped or another version is found.
pub(crate) async fn keep_announced(caller: Weak<LeaseCaller>) {
    let mut is_announced = false;
    loop {
        let Some(caller) = caller.upgrade() else {
            return;
        };
        let store = RedisStore::from_caller(caller);
        let result = if is_announced {
            // Those who come later make way.
            let renewed = store.put_record(&LAYOUTS, LAYOUT, LAYOUT, KEPT_FOR).await;
            renewed.map_err(LayoutError::from)
        } else {
            store.announce_layout().await
        };
        drop(store);

        is_announced |= result.is_ok();
        let pause = match result {
            Err(LayoutError::Other { .. }) => return,
            Err(LayoutError::Store(_)) => RETRY_EVERY,
            Ok(()) => RENEW_EVERY,
        };
        sleep(pause).await;
    }
}

/// Starts to announce the version.
pub(crate) fn start(caller: &Arc<LeaseCaller>) {
    let runtime = &caller.router.connector.runtime;
    runtime.spawn(keep_announced(Arc::downgrade(caller)));
}
