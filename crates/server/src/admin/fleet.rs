//! `GET /admin/fleet`: the replicas that share the store.

use hyper::Response;
use serde::Serialize;
use tollgate::Micros;
use tollgate_gate::metrics::OutcomeCounts;

use super::encode::{json_ok, millis};
use crate::fleet::{FleetFinding, Member};
use crate::http::Body;
use crate::service::Service;

/// The most replicas in `/admin/status` and on the dashboard; `/admin/fleet` lists all of them.
const SHOWN_MAX: usize = 64;

/// The body of the response. Times are milliseconds since the UNIX epoch.
#[derive(Debug, Serialize)]
pub(super) struct FleetView {
    /// The name of the replica that responds.
    replica: String,
    /// False with a memory store: there are no others.
    shared: bool,
    expected_replicas: u32,
    /// How many replicas there are.
    seen: usize,
    /// When the others were read; null if they never were.
    read_at_ms: Option<u64>,
    /// How long ago that was.
    age_ms: Option<u64>,
    /// Why they could not be read at the last attempt; null if they could.
    error: Option<String>,
    /// Of all replicas together, each since its start.
    decisions: OutcomeCounts,
    /// Decisions per second of all replicas together.
    per_second: f64,
    replicas: Vec<ReplicaView>,
    findings: Vec<FleetFinding>,
}

/// One replica.
#[derive(Debug, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a JSON member, independent of the others"
)]
struct ReplicaView {
    name: String,
    /// True for the replica that responds.
    this: bool,
    version: String,
    /// The fingerprint of its active configuration.
    config: String,
    /// Whether it has the same actions of operators as the replica that responds.
    actions_current: bool,
    started_at_ms: u64,
    /// How long ago it sent its last heartbeat.
    seen_ms_ago: u64,
    degraded: bool,
    store_up: bool,
    decisions: OutcomeCounts,
    per_second: f64,
}

/// All replicas.
pub(super) fn respond(service: &Service) -> Response<Body> {
    json_ok(&FleetView::new(service, usize::MAX))
}

impl FleetView {
    /// The fleet with at most a few dozen of its replicas.
    pub(super) fn for_status(service: &Service) -> Self {
        Self::new(service, SHOWN_MAX)
    }

    fn new(service: &Service, replicas_max: usize) -> Self {
        let now = service.gate.now();
        let fleet = service.fleet.snapshot(&service.gate);
        let heartbeats = || fleet.members.iter().map(|member| &member.heartbeat);
        let sums = heartbeats().map(|heartbeat| heartbeat.decisions);
        let per_second: f64 = heartbeats().map(|heartbeat| heartbeat.per_second).sum();
        let replicas = fleet.members.iter().take(replicas_max);
        let actions = &fleet.members[0].heartbeat.actions;

        Self {
            shared: fleet.is_shared,
            expected_replicas: fleet.expected_replicas,
            seen: fleet.members.len(),
            read_at_ms: fleet.read_at.map(millis),
            age_ms: fleet.read_at.map(|at| millis(now.since(at))),
            decisions: sums.fold(OutcomeCounts::default(), OutcomeCounts::plus),
            per_second: (per_second * 10.0).round() / 10.0,
            replicas: replicas
                .enumerate()
                .map(|(index, one)| ReplicaView::new(one, index == 0, actions, now))
                .collect(),
            replica: fleet.members[0].heartbeat.name.clone(),
            error: fleet.error,
            findings: fleet.findings,
        }
    }
}

impl ReplicaView {
    fn new(member: &Member, this: bool, actions: &str, now: Micros) -> Self {
        let heartbeat = member.heartbeat.clone();
        Self {
            actions_current: heartbeat.actions == actions,
            this,
            seen_ms_ago: millis(member.age(now)),
            name: heartbeat.name,
            version: heartbeat.version,
            config: heartbeat.config,
            started_at_ms: heartbeat.started_at_ms,
            degraded: heartbeat.degraded,
            store_up: heartbeat.store_up,
            decisions: heartbeat.decisions,
            per_second: heartbeat.per_second,
        }
    }
}
