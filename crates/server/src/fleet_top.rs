//! The heaviest keys over all replicas: each shares its own, and reads those of the others when
//! it is asked for them.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tollgate::Micros;
use tollgate_gate::Gate;
use tollgate_gate::records::RecordGroup;
use tollgate_gate::top_keys::UsageSpan;
use tollgate_gate::top_keys::shared::TopLists;

use crate::fleet::OtherRecords;
use crate::listen::ShutdownSignal;

/// How often a replica shares its keys.
const INTERVAL: Duration = Duration::from_secs(5);
/// The lists of longer spans change slowly and take longer to compute: once in this many intervals.
const LONG_SPANS_EVERY: u64 = 6;
/// How long the others use what a replica has shared.
const TTL: Duration = Duration::from_secs(20);
/// How long a request waits for what the others have shared.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// What this replica knows of the others.
#[derive(Debug)]
pub(crate) struct FleetTop {
    /// The id of this replica's record.
    id: String,
    /// The lists of each other replica.
    known: Mutex<OtherRecords<TopLists>>,
}

impl Default for FleetTop {
    fn default() -> Self {
        Self {
            id: format!("{:016x}", RandomState::new().hash_one(0)),
            known: Mutex::default(),
        }
    }
}

impl FleetTop {
    /// The lists of the other replicas; none of them while the store is unavailable.
    pub(crate) async fn others(&self, gate: &Gate) -> Vec<TopLists> {
        let records = gate.records();
        if !records.are_shared() {
            return Vec::new();
        }

        let revision = self.known.lock().revision;
        let read = timeout(READ_TIMEOUT, records.read(RecordGroup::Top, revision)).await;
        let Ok(Ok(list)) = read else {
            return Vec::new();
        };

        let mut known = self.known.lock();
        known.update(
            list,
            &self.id,
            gate.now(),
            Micros::ZERO,
            TopLists::from_text,
        );
        let lists = known.contents().map(|(_, lists)| lists.clone());
        lists.collect()
    }
}

/// Shares the heaviest keys of this replica until it shuts down.
pub(crate) async fn watch(gate: Arc<Gate>, top: Arc<FleetTop>, mut shutdown: ShutdownSignal) {
    let mut lists = TopLists::default();
    for round in 0.. {
        if !shutdown.pause(INTERVAL).await {
            break;
        }
        if !gate.records().are_shared() {
            continue;
        }

        let spans = if round % LONG_SPANS_EVERY == 0 {
            &UsageSpan::ALL[..]
        } else {
            &UsageSpan::ALL[..1]
        };
        // Computed in a thread of its own: no decision waits for it.
        let own = gate.clone();
        let compute = move || own.active().top_lists(spans, own.now());
        let Ok(newer) = tokio::task::spawn_blocking(compute).await else {
            break;
        };
        lists.update(newer, spans);
        share(&gate, &top, &lists).await;
    }

    if gate.records().are_shared() && !lists.is_empty() {
        // If it fails, the record expires soon.
        drop(gate.records().remove(RecordGroup::Top, &top.id).await);
    }
}

/// Shares the lists, if there are any. A failure is made up for by the next round.
async fn share(gate: &Gate, top: &FleetTop, lists: &TopLists) {
    let Some(text) = lists.to_text().filter(|_| !lists.is_empty()) else {
        return;
    };
    let records = gate.records();
    let shared = records.put(RecordGroup::Top, &top.id, &text, TTL).await;
    if let Err(error) = shared {
        tracing::debug!(%error, "cannot share the heaviest keys");
    }
}
