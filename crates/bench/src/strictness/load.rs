//! The load: every request at its moment, whether or not others have been answered.
//!
//! One thread keeps the time and lets requests go; a bounded number of connections to each replica carries them. A request
//! that finds all of them busy waits, and its latency counts from the moment at which it was due.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::client::{Connection, Question};
use super::record::{Record, Told};
use super::schedule::Shot;
use crate::timing;

/// Connections to all replicas together, and to one at most.
const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_PER_REPLICA_MAX: usize = 32;
/// What was due is given up this long after the last moment.
const GRACE: Duration = Duration::from_secs(5);

/// What one replica is sent.
struct Lane {
    replica: SocketAddr,
    shots: Vec<Shot>,
    /// How many were taken.
    taken: AtomicUsize,
    /// How many are due.
    due: Semaphore,
    question: Question,
    start: Instant,
    end: Instant,
}

/// Connections to every replica, before the load begins.
pub(super) struct Ready<'a> {
    runtime: &'a Runtime,
    replicas: Vec<(SocketAddr, Vec<Connection>)>,
}

/// Opens the connections.
pub(super) fn connect<'a>(runtime: &'a Runtime, replicas: &[SocketAddr]) -> io::Result<Ready<'a>> {
    let count = (CONNECTIONS_MAX / replicas.len().max(1)).clamp(1, CONNECTIONS_PER_REPLICA_MAX);
    let open = |replica: &SocketAddr| {
        let connections = (0..count).map(|_| runtime.block_on(Connection::open(*replica)));
        Ok((*replica, connections.collect::<io::Result<_>>()?))
    };
    Ok(Ready { runtime, replicas: replicas.iter().map(open).collect::<io::Result<_>>()? })
}

impl Ready<'_> {
    /// Sends everything and returns what became of it. Moments count from `start`.
    pub(super) fn fire(self, question: &Question, shots: &[Shot], start: Instant) -> Vec<Record> {
        let Self { runtime, replicas } = self;
        let length = shots.last().map_or(0, |shot| shot.at_us);
        let end = start + Duration::from_micros(length) + GRACE;
        let mut lanes = Vec::with_capacity(replicas.len());
        let mut senders = Vec::new();
        for (index, (replica, connections)) in replicas.into_iter().enumerate() {
            let own = shots.iter().filter(|shot| shot.replica == index).copied().collect();
            let lane = Arc::new(Lane {
                replica,
                shots: own,
                taken: AtomicUsize::new(0),
                due: Semaphore::new(0),
                question: question.clone(),
                start,
                end,
            });
            senders.extend(
                connections.into_iter().map(|connection| runtime.spawn(send(Arc::clone(&lane), connection))),
            );
            lanes.push(lane);
        }
        for shot in shots {
            pause_until(start + Duration::from_micros(shot.at_us));
            lanes[shot.replica].due.add_permits(1);
        }
        // Whoever finds nothing left to send has finished.
        lanes.iter().for_each(|lane| lane.due.add_permits(CONNECTIONS_PER_REPLICA_MAX));
        let records = senders.into_iter().map(|sender| runtime.block_on(sender));
        records.flat_map(|records| records.expect("a sender does not panic")).collect()
    }
}

/// Waits on this thread, more finely than a runtime's timers do.
pub(super) fn pause_until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(timing::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}

/// What one connection does.
async fn send(lane: Arc<Lane>, connection: Connection) -> Vec<Record> {
    let mut records = Vec::with_capacity(lane.shots.len() / 4);
    let mut connection = Some(connection);
    let mut request = String::new();
    loop {
        let Ok(permit) = lane.due.acquire().await else { return records };
        permit.forget();
        let Some(shot) = lane.shots.get(lane.taken.fetch_add(1, Relaxed)) else { return records };
        lane.question.write(&mut request, shot.key, shot.cost);
        let sent = timing::now();
        let answer = if sent < lane.end { ask(&lane, &mut connection, &request).await } else { None };
        let received = timing::now();
        let (admitted, told) = answer.unwrap_or((false, Told::Nothing));
        records.push(Record {
            scheduled_us: shot.at_us,
            sent_us: micros(sent - lane.start),
            received_us: micros(received - lane.start) + 1,
            key: shot.key,
            cost: shot.cost,
            admitted,
            told,
        });
    }
}

/// Asks on the connection, or on a new one if it was lost.
async fn ask(lane: &Lane, connection: &mut Option<Connection>, request: &str) -> Option<(bool, Told)> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Connection::open(lane.replica).await.ok()?,
    };
    let decision = open.ask(request).await.ok()?.decision();
    *connection = Some(open);
    Some(decision)
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
