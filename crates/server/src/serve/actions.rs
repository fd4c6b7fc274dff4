//! Learns of the actions of operators that other replicas have put into the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_gate::Gate;

use crate::fleet::Fleet;
use crate::listen::ShutdownSignal;

/// How often the store is asked for changes: one small call if there are none. Four tries fit into
/// the second within which an action takes effect everywhere.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long the start waits for the actions that are in force.
const FIRST_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Reads the actions before the first request is decided, so that a restart undoes none of them.
pub(super) async fn read_first(gate: &Gate) {
    // The probes log an outage. The actions apply as soon as the store is there.
    drop(timeout(FIRST_READ_TIMEOUT, gate.sync_actions()).await);
}

/// Keeps the actions up to date until the service shuts down, and the fleet informed of that.
pub(super) async fn watch(gate: Arc<Gate>, fleet: Arc<Fleet>, mut shutdown: ShutdownSignal) {
    while shutdown.pause(INTERVAL).await {
        // The probes log an outage. The known actions stay in force meanwhile.
        drop(gate.sync_actions().await);
        fleet.announce_actions(&gate);
    }
}
