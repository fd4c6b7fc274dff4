//! The fleet: the replicas that share a store, as each of them sees it.
//!
//! Every two seconds, and when it has read actions of operators, a replica puts a heartbeat into the
//! store and reads those of the others. No decision waits for that. While the store is unavailable,
//! the fleet is shown as it was last read; once it is back, until all have had the time to report.

mod agreement;
mod finding;
mod heartbeat;
mod others;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tollgate::Micros;
use tollgate_gate::Gate;
use tollgate_gate::records::{RecordError, RecordGroup, RecordList, RecordRevision};

pub(crate) use self::agreement::FleetAgreement;
pub(crate) use self::finding::{FindingKind, FleetFinding};
use self::heartbeat::{Heartbeat, LastBeat, ReplicaIdentity};
pub(crate) use self::others::OtherRecords;
use crate::listen::ShutdownSignal;

/// The time between two heartbeats of a replica.
const INTERVAL: Duration = Duration::from_secs(2);
/// A rate is measured over at least this time.
const RATE_SPAN_MIN: Micros = Micros::from_secs(1);
/// A replica is no longer shown this long after its last heartbeat.
const HEARTBEAT_TTL: Duration = Duration::from_secs(7);
/// A replica reads the others with every heartbeat if there are at most this many, else less often:
/// all of them together read this many heartbeats for each one.
const READ_MAX: usize = 32;

/// The replicas that share the store.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// The id of this process among the heartbeats; two replicas may have the same name.
    id: String,
    identity: OnceLock<ReplicaIdentity>,
    state: Mutex<FleetState>,
    /// Wakes the task that sends heartbeats.
    has_news: Notify,
}

#[derive(Debug, Default)]
struct FleetState {
    /// When the rate of this replica was measured, and its decisions then.
    measured: Option<LastBeat>,
    /// Its rate.
    per_second: f64,
    /// The actions of its last heartbeat; none before the first one.
    announced: Option<String>,
    others: OtherRecords<Heartbeat>,
    /// When the others were read.
    read_at: Option<Micros>,
    /// Since when every attempt to read them has succeeded; none while they fail.
    readable_since: Option<Micros>,
    /// Why the last attempt failed; none if it succeeded.
    error: Option<String>,
    /// Heartbeats so far.
    beats: usize,
}

impl FleetState {
    /// Whether the others were read after all of them had the time for a heartbeat. Before that,
    /// their number says nothing.
    fn have_all_reported(&self) -> bool {
        let span = self.read_at.zip(self.readable_since);
        span.is_some_and(|(read_at, since)| read_at.since(since) >= ttl())
    }
}

/// A replica of the fleet.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) heartbeat: Heartbeat,
    /// By the clock of this replica.
    pub(crate) expires_at: Micros,
}

impl Member {
    /// How long ago the replica sent the heartbeat.
    pub(crate) fn age(&self, now: Micros) -> Micros {
        now.after(ttl()).since(self.expires_at)
    }
}

/// The fleet at one moment.
#[derive(Debug)]
pub(crate) struct FleetSnapshot {
    /// False with a memory store: there are no others.
    pub(crate) is_shared: bool,
    pub(crate) expected_replicas: u32,
    /// This replica first, then the others by name.
    pub(crate) members: Vec<Member>,
    /// When the others were read; none if they never were.
    pub(crate) read_at: Option<Micros>,
    /// Why the last attempt to read them failed; none if it succeeded.
    pub(crate) error: Option<String>,
    pub(crate) findings: Vec<FleetFinding>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            // As unique as a revision.
            id: RecordRevision::random().to_string(),
            identity: OnceLock::new(),
            state: Mutex::default(),
            has_news: Notify::new(),
        }
    }
}

impl Fleet {
    /// Names this replica. Must be called before it is watched.
    pub(crate) fn set_name(&self, name: String, started_at: Micros) {
        // Called once, by the start of the service.
        drop(self.identity.set(ReplicaIdentity { name, started_at }));
    }

    /// The name of this replica.
    pub(crate) fn name(&self) -> String {
        let identity = self.identity.get();
        identity.map_or_else(String::new, |identity| identity.name.clone())
    }

    /// How many replicas there are, this one included.
    pub(crate) fn replicas(&self) -> usize {
        self.state.lock().others.len() + 1
    }

    /// The fleet as it was last read, with the current state of this replica.
    pub(crate) fn snapshot(&self, gate: &Gate) -> FleetSnapshot {
        let now = gate.now();
        let is_shared = gate.records().are_shared();
        let expected_replicas = gate.active().config.expected_replicas.get();
        let heartbeat = self.own_heartbeat(gate);

        let state = self.state.lock();
        let this = Member {
            heartbeat,
            expires_at: now.after(ttl()),
        };
        let others = state.others.contents().filter(|_| is_shared);
        let others = others.map(|(expires_at, heartbeat)| Member {
            heartbeat: heartbeat.clone(),
            expires_at: *expires_at,
        });
        let mut members: Vec<Member> = others.collect();
        members.sort_by(|a, b| a.heartbeat.name.cmp(&b.heartbeat.name));
        members.insert(0, this);

        // What a replica said before an outage that is over is shown and not judged.
        let have_all_reported = state.have_all_reported();
        let is_as_read = have_all_reported || state.error.is_some();
        let judged = members.iter();
        let judged = judged.filter(|one| is_as_read || now < one.expires_at);
        let heartbeats: Vec<Heartbeat> = judged.map(|one| one.heartbeat.clone()).collect();
        FleetSnapshot {
            is_shared,
            expected_replicas,
            findings: finding::find(&heartbeats, is_shared, expected_replicas, have_all_reported),
            members,
            read_at: state.read_at,
            error: state.error.clone(),
        }
    }

    /// The heartbeat of this replica now.
    fn own_heartbeat(&self, gate: &Gate) -> Heartbeat {
        let per_second = self.state.lock().per_second;
        let unnamed = || ReplicaIdentity {
            name: String::new(),
            started_at: gate.now(),
        };
        let identity = self.identity.get_or_init(unnamed);
        Heartbeat::new(identity, gate, per_second)
    }

    /// Sends a heartbeat at once if the last one has other actions, so that the replica on which an
    /// operator acts learns that this one has read them.
    pub(crate) fn announce_actions(&self, gate: &Gate) {
        let known = gate.kept_actions_revision().to_string();
        let announced = self.state.lock().announced.clone();
        if announced.is_some_and(|announced| announced != known) {
            self.has_news.notify_one();
        }
    }

    /// Reads the heartbeats of the others, and puts one into the store: in this order, so that a
    /// store that has lost its data shows.
    async fn beat(&self, gate: &Gate) {
        if self.reads_now() {
            self.read(gate).await;
        }
        let heartbeat = self.next_heartbeat(gate);
        let (records, group) = (gate.records(), RecordGroup::Fleet);
        // Text and numbers never fail to serialise.
        let text = serde_json::to_string(&heartbeat).unwrap_or_default();
        let put = records.put(group, &self.id, &text, HEARTBEAT_TTL).await;
        if let Err(error) = put {
            self.update(gate.now(), Err(error));
        }
    }

    /// Reads the heartbeats of the others.
    async fn read(&self, gate: &Gate) {
        let known = self.state.lock().others.revision;
        let read = gate.records().read(RecordGroup::Fleet, known).await;
        self.update(gate.now(), read);
    }

    fn next_heartbeat(&self, gate: &Gate) -> Heartbeat {
        let now = gate.now();
        let mut heartbeat = self.own_heartbeat(gate);
        let mut state = self.state.lock();

        let current: LastBeat = (now, heartbeat.decisions);
        let last = state.measured;
        // Between two heartbeats that follow each other closely, a rate would be random.
        if last.is_none_or(|(at, _)| now.since(at) >= RATE_SPAN_MIN) {
            state.per_second = last.map_or(0.0, |last| heartbeat::rate(last, current));
            state.measured = Some(current);
        }
        heartbeat.per_second = state.per_second;
        state.announced = Some(heartbeat.actions.clone());
        state.beats = state.beats.wrapping_add(1);
        heartbeat
    }

    /// Whether the others are read with this heartbeat.
    fn reads_now(&self) -> bool {
        let state = self.state.lock();
        let every = (state.others.len() / READ_MAX).max(1);
        state.beats.is_multiple_of(every)
    }

    fn update(&self, now: Micros, read: Result<Option<RecordList>, RecordError>) {
        let mut state = self.state.lock();
        match read {
            Err(error) => {
                state.error = Some(error.to_string());
                state.readable_since = None;
            }
            Ok(list) => {
                state.error = None;
                state.read_at = Some(now);
                // A store without the heartbeat of this replica has lost those of the others, too,
                // as after an outage: they may not have sent another one yet.
                let has_own = |list: &RecordList| list.records.iter().any(|one| one.id == self.id);
                if list.as_ref().is_some_and(|list| !has_own(list)) {
                    state.readable_since = None;
                }
                let kept_until = state.readable_since.get_or_insert(now).after(ttl());
                let parse = |text: &str| serde_json::from_str(text).ok();
                state.others.update(list, &self.id, now, kept_until, parse);
            }
        }
    }
}

/// Keeps the fleet up to date until the service shuts down, then removes this replica from it.
pub(crate) async fn watch(gate: Arc<Gate>, fleet: Arc<Fleet>, mut shutdown: ShutdownSignal) {
    loop {
        fleet.beat(&gate).await;
        let goes_on = tokio::select! {
            goes_on = shutdown.pause(INTERVAL) => goes_on,
            () = fleet.has_news.notified() => true,
        };
        if !goes_on {
            // If it fails, the record expires soon.
            drop(gate.records().remove(RecordGroup::Fleet, &fleet.id).await);
            return;
        }
    }
}

fn ttl() -> Micros {
    Micros::from_duration_ceil(HEARTBEAT_TTL).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests {
    use tollgate_gate::records::Record;

    use super::*;

    fn list(ids: &[&str]) -> RecordList {
        let record = |id: &&str| Record {
            id: (*id).to_owned(),
            text: "{}".to_owned(),
            expires_after: HEARTBEAT_TTL,
        };
        RecordList {
            revision: RecordRevision::random(),
            records: ids.iter().map(record).collect(),
        }
    }

    /// At a start and after an outage, the others report one after the other.
    #[test]
    fn the_replicas_are_counted_when_all_had_the_time_to_report() {
        let fleet = Fleet::default();
        let update = |secs, read: Result<RecordList, RecordError>| {
            let read = read.map(|mut list| {
                list.records.extend(self::list(&[&fleet.id]).records);
                list
            });
            fleet.update(Micros::from_secs(secs), read.map(Some));
            let have_all_reported = fleet.state.lock().have_all_reported();
            (fleet.replicas(), have_all_reported)
        };
        assert_eq!(update(100, Ok(list(&["b"]))), (2, false));
        assert_eq!(update(102, Ok(list(&["b", "c"]))), (3, false));
        assert_eq!(update(107, Ok(list(&["b", "c"]))), (3, true));
        assert_eq!(update(109, Ok(list(&["b"]))), (2, true), "c has shut down");
        assert_eq!(update(111, Ok(list(&["b", "c"]))), (3, true));

        let outage = || Err(RecordError::Ttl(Duration::ZERO));
        assert_eq!(update(113, outage()), (3, false));
        assert_eq!(update(150, outage()), (3, false));
        assert_eq!(update(152, Ok(list(&[]))), (3, false), "as last read");
        assert_eq!(update(154, Ok(list(&["c"]))), (3, false));
        assert_eq!(update(159, Ok(list(&["c"]))), (2, true), "b is gone");
    }

    /// `FLUSHALL`, or a restart of Redis between two heartbeats, is no failed read.
    #[test]
    fn a_store_that_lost_its_heartbeats_is_not_a_fleet_of_one() {
        let fleet = Fleet::default();
        let update = |secs, ids: &[&str]| {
            fleet.update(Micros::from_secs(secs), Ok(Some(list(ids))));
            let have_all_reported = fleet.state.lock().have_all_reported();
            (fleet.replicas(), have_all_reported)
        };
        let own = fleet.id.as_str();
        assert_eq!(
            update(100, &["b", "c"]),
            (3, false),
            "before the first heartbeat"
        );
        assert_eq!(update(108, &["b", "c", own]), (3, true));
        assert_eq!(update(110, &[]), (3, false), "everything is lost");
        assert_eq!(update(112, &[own]), (3, false));
        assert_eq!(update(114, &[own, "b"]), (3, false));
        assert_eq!(update(117, &[own, "b"]), (2, true), "c is gone");
    }
}
