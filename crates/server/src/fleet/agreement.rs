//! Whether all replicas know what an operator did.

use std::time::Duration;

use serde::Serialize;
use tokio::time::{sleep, timeout};
use tollgate_gate::Gate;
use tollgate_gate::records::RecordRevision;

use super::Fleet;

/// The time between two looks at the others. They read the actions up to four times a second.
const PAUSE: Duration = Duration::from_millis(50);
/// How long an action waits to be saved.
const SAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most replicas that are named.
const NAMES_MAX: usize = 64;

/// Which replicas have the actions that this one has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FleetAgreement {
    /// How many replicas there are.
    seen: usize,
    /// How many of them have the same actions as this one.
    current: usize,
    /// The names of the others.
    behind: Vec<String>,
}

impl Fleet {
    /// Waits until all replicas have the actions that this one has, but no longer than this.
    pub(crate) async fn agreement(&self, gate: &Gate, wait: Duration) -> FleetAgreement {
        // A disk that is too slow leaves this replica behind.
        drop(timeout(SAVE_TIMEOUT, gate.save_actions()).await);
        let mut agreement = self.compare(gate);
        let agreed = async {
            loop {
                // A fail-over may have lost the action: then it is put again.
                drop(gate.sync_actions().await);
                gate.save_actions().await;
                self.read(gate).await;
                agreement = self.compare(gate);
                if agreement.behind.is_empty() {
                    return;
                }
                sleep(PAUSE).await;
            }
        };
        // After that, the replicas that are still behind are named.
        drop(timeout(wait, agreed).await);
        agreement
    }

    /// Compares the others, as they were last read, with this replica.
    fn compare(&self, gate: &Gate) -> FleetAgreement {
        let fleet = self.snapshot(gate);
        let unread = RecordRevision::default().to_string();
        let known = gate.actions_revision().to_string();
        let behind = fleet.members.iter().filter(|member| {
            let actions = &member.heartbeat.actions;
            fleet.is_shared && (*actions != known || *actions == unread)
        });
        let behind: Vec<&String> = behind.map(|member| &member.heartbeat.name).collect();

        FleetAgreement {
            seen: fleet.members.len(),
            current: fleet.members.len() - behind.len(),
            behind: behind.into_iter().take(NAMES_MAX).cloned().collect(),
        }
    }
}
