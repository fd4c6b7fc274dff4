//! Learns of the actions of operators that other replicas have put into the store, and of the key
//! that seals tokens.

use std::path::Path;
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
/// How often the known actions are saved, if they have changed. The others learn of it then.
const SAVE_INTERVAL: Duration = Duration::from_millis(50);
/// How long the start waits for the actions that are in force.
const FIRST_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Keeps the known actions over a restart, and applies those that were kept. A directory of the
/// arguments must be usable; one of systemd, which is for all that a unit starts, should be.
pub(super) fn keep(gate: &Gate, directory: Option<&Path>) -> Result<(), String> {
    if let Some(directory) = directory {
        let kept = gate.keep_actions(directory);
        return kept.map_err(|error| format!("--state-dir {}: {error}", directory.display()));
    }
    let variable = std::env::var_os("STATE_DIRECTORY").unwrap_or_default();
    // Several directories have colons between them.
    let directory = std::env::split_paths(&variable).next();
    if let Some(directory) = directory.filter(|path| path.is_absolute())
        && let Err(error) = gate.keep_actions(&directory)
    {
        let directory = directory.display();
        tracing::warn!(%directory, %error, "cannot keep the known actions over a restart");
    }
    Ok(())
}

/// Reads the actions before the first request is decided, so that a restart undoes none of them,
/// and the key of tokens, so that none is withheld.
pub(super) async fn read_first(gate: &Gate) {
    let first = async { tokio::join!(gate.sync_actions(), gate.sync_sealing_keys()) };
    // The probes log an outage. The actions apply as soon as the store is there.
    drop(timeout(FIRST_READ_TIMEOUT, first).await);
}

/// Keeps the actions up to date until the service shuts down, and the fleet informed of that.
pub(super) async fn watch(gate: Arc<Gate>, fleet: Arc<Fleet>, shutdown: ShutdownSignal) {
    let (mut reading, mut saving) = (shutdown.clone(), shutdown);
    let read = async {
        while reading.pause(interval(fleet.replicas())).await {
            // The probes log an outage. The known actions stay in force meanwhile.
            drop(tokio::join!(gate.sync_actions(), gate.sync_sealing_keys()));
            fleet.announce_actions(&gate);
        }
    };
    // Reading does not wait for a slow disk.
    let save = async {
        while saving.pause(SAVE_INTERVAL).await {
            gate.save_actions().await;
            fleet.announce_actions(&gate);
        }
    };
    tokio::join!(read, save);
    gate.save_actions().await;
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
