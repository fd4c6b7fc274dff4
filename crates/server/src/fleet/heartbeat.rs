//! What a replica tells the others about itself.

use serde::{Deserialize, Serialize};
use tollgate::Micros;
use tollgate_gate::Gate;
use tollgate_gate::metrics::{OutcomeCounts, to_f64};

/// A heartbeat, as it is kept in the store. Replicas of another version may lack fields, or have
/// more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Heartbeat {
    /// What operators call the replica.
    pub(crate) name: String,
    pub(crate) version: String,
    /// The fingerprint of its active configuration.
    pub(crate) config: String,
    /// The revision of the actions that it has read, and saved if it keeps them over a restart.
    /// Replicas with the same one have the same actions.
    pub(crate) actions: String,
    /// By its own clock, in milliseconds since the UNIX epoch.
    pub(crate) started_at_ms: u64,
    /// True while its limits use their failure policies.
    pub(crate) degraded: bool,
    /// True when it reaches every server of the store.
    pub(crate) store_up: bool,
    /// Its decisions since its start.
    pub(crate) decisions: OutcomeCounts,
    /// Its decisions per second since the heartbeat before.
    pub(crate) per_second: f64,
}

/// What stays the same for all heartbeats of a process.
#[derive(Debug)]
pub(super) struct ReplicaIdentity {
    pub(super) name: String,
    pub(super) started_at: Micros,
}

/// A heartbeat and when it was made, to compute the rate of the next one.
pub(super) type LastBeat = (Micros, OutcomeCounts);

impl Heartbeat {
    /// A heartbeat of this replica.
    pub(super) fn new(identity: &ReplicaIdentity, gate: &Gate, per_second: f64) -> Self {
        let outcomes = gate.metrics().outcomes();
        let decisions = outcomes
            .into_values()
            .fold(OutcomeCounts::default(), OutcomeCounts::plus);
        let store = gate.store_signs();

        Self {
            name: identity.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: gate.active().config.fingerprint.to_string(),
            actions: gate.kept_actions_revision().to_string(),
            started_at_ms: identity.started_at.get() / 1_000,
            degraded: store.is_degraded,
            store_up: store.is_up,
            decisions,
            per_second,
        }
    }
}

/// The decisions per second between two heartbeats, with one digit after the point.
pub(super) fn rate((earlier, before): LastBeat, (now, after): LastBeat) -> f64 {
    let decisions = after.total().saturating_sub(before.total());
    let micros = now.since(earlier).get().max(1);
    (to_f64(decisions) * 1e7 / to_f64(micros)).round() / 10.0
}
