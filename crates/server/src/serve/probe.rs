//! Probes the store, so that an outage and its end are noticed even while there is no traffic.
//!
//! A probe is a call to the store, and all replicas probe the same key. So a replica probes only
//! when it has no other evidence: a call that the store has answered, or connections that are up.

use std::sync::Arc;
use std::time::Duration;

use tollgate_gate::{Gate, StoreSigns};

use crate::listen::ShutdownSignal;

/// How often the signs of the store are read, which needs no call. While the store is unavailable
/// it is probed as often, so that its return is noticed soon.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long a store may answer no call before it is probed, if one of its servers cannot be
/// reached.
const QUIET_MAX_DOWN: Duration = Duration::from_millis(500);
/// The same if all servers can be reached. Then a probe can only find out that a server refuses
/// calls.
const QUIET_MAX_UP: Duration = Duration::from_secs(10);

/// Decides when the store is probed.
#[derive(Debug)]
struct ProbeSchedule {
    /// How many calls the store had answered at the last step.
    replies: u64,
    /// How long the store has neither answered a call nor been probed.
    quiet_for: Duration,
}

/// Probes the store until the service shuts down.
pub(super) async fn watch(gate: Arc<Gate>, mut shutdown: ShutdownSignal) {
    let mut schedule = ProbeSchedule::new();
    loop {
        schedule.step(&gate).await;
        if !shutdown.pause(INTERVAL).await {
            return;
        }
    }
}

impl ProbeSchedule {
    /// The first step probes: at the start there is no evidence.
    const fn new() -> Self {
        Self {
            replies: 0,
            quiet_for: QUIET_MAX_UP,
        }
    }

    /// Probes the store if that is due. One step is made in each interval.
    async fn step(&mut self, gate: &Gate) {
        if self.is_due(gate.store_signs()) {
            gate.probe().await;
        }
    }

    /// True if the store must be probed now.
    fn is_due(&mut self, store: StoreSigns) -> bool {
        self.quiet_for = if store.replies > self.replies {
            Duration::ZERO
        } else {
            self.quiet_for.saturating_add(INTERVAL)
        };
        self.replies = store.replies;

        let quiet_max = if store.is_up {
            QUIET_MAX_UP
        } else {
            QUIET_MAX_DOWN
        };
        let is_due = store.is_degraded || self.quiet_for >= quiet_max;
        if is_due {
            self.quiet_for = Duration::ZERO;
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
