//! Learns of the actions of operators that other replicas have put into the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_gate::Gate;

use crate::fleet::Fleet;
use crate::listen::ShutdownSignal;

/// How often the store is asked for changes: one small call if there are none.
const INTERVAL: Duration = Duration::from_millis(250);
/// The longest interval, so that an action takes effect everywhere within a second.
const INTERVAL_MAX: Duration = Duration::from_millis(750);
/// With more replicas than this, each asks less often, to spare the store.
const REPLICAS_MAX: u32 = 8;
/// How long the start waits for the actions that are in force.
const FIRST_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Reads the actions before the first request is decided, so that a restart undoes none of them.
pub(super) async fn read_first(gate: &Gate) {
    // The probes log an outage. The actions apply as soon as the store is there.
    drop(timeout(FIRST_READ_TIMEOUT, gate.sync_actions()).await);
}

/// Keeps the actions up to date until the service shuts down, and the fleet informed of that.
pub(super) async fn watch(gate: Arc<Gate>, fleet: Arc<Fleet>, mut shutdown: ShutdownSignal) {
    while shutdown.pause(interval(fleet.replicas())).await {
        // The probes log an outage. The known actions stay in force meanwhile.
        drop(gate.sync_actions().await);
        fleet.announce_actions(&gate);
    }
}

fn interval(replicas: usize) -> Duration {
    let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
    let stretched = INTERVAL.saturating_mul(replicas) / REPLICAS_MAX;
    stretched.clamp(INTERVAL, INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_replicas_ask_less_often_but_within_a_second() {
        let millis = [1, 8, 16, 24, 1_000, usize::MAX].map(|count| interval(count).as_millis());
        assert_eq!(millis, [250, 250, 500, 750, 750, 750]);
    }
}
