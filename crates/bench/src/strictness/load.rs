//! The load: every request is sent when it is due, whether or not earlier ones have been answered.
//!
//! One thread releases requests on time; a bounded number of connections to each replica sends
//! them. A request that finds all connections busy waits, and its latency counts from the time at
//! which it was due.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::client::{CheckRequest, Connection};
use super::record::{DecisionSource, Record};
use super::schedule::ScheduledRequest;
use crate::timing;

/// The most connections to all replicas together, and to one replica.
const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_PER_REPLICA_MAX: usize = 32;
/// Requests are abandoned this long after the last due time.
const GRACE: Duration = Duration::from_secs(5);

/// The requests to one replica.
struct ReplicaQueue {
    replica: SocketAddr,
    requests: Vec<ScheduledRequest>,
    /// The number of requests that connections have taken.
    taken: AtomicUsize,
    /// One permit for each request that is due.
    due: Semaphore,
    check_request: CheckRequest,
    start: Instant,
    end: Instant,
}

/// Connections to every replica, opened before the load begins.
pub(super) struct LoadGenerator<'a> {
    runtime: &'a Runtime,
    replicas: Vec<(SocketAddr, Vec<Connection>)>,
}

/// Opens the connections.
pub(super) fn connect<'a>(
    runtime: &'a Runtime,
    replicas: &[SocketAddr],
) -> io::Result<LoadGenerator<'a>> {
    let count = (CONNECTIONS_MAX / replicas.len().max(1)).clamp(1, CONNECTIONS_PER_REPLICA_MAX);
    let open = |replica: &SocketAddr| {
        let connections = (0..count).map(|_| runtime.block_on(Connection::open(*replica)));
        Ok((*replica, connections.collect::<io::Result<_>>()?))
    };
    Ok(LoadGenerator {
        runtime,
        replicas: replicas.iter().map(open).collect::<io::Result<_>>()?,
    })
}

impl LoadGenerator<'_> {
    /// Sends all requests and returns a record of each. Times count from `start`.
    pub(super) fn fire(
        self,
        check_request: &CheckRequest,
        requests: &[ScheduledRequest],
        start: Instant,
    ) -> Vec<Record> {
        let Self { runtime, replicas } = self;
        let length = requests.last().map_or(0, |scheduled| scheduled.at_us);
        let end = start + Duration::from_micros(length) + GRACE;
        let mut lanes = Vec::with_capacity(replicas.len());
        let mut senders = Vec::new();
        for (index, (replica, connections)) in replicas.into_iter().enumerate() {
            let own = requests
                .iter()
                .filter(|scheduled| scheduled.replica == index)
                .copied()
                .collect();
            let lane = Arc::new(ReplicaQueue {
                replica,
                requests: own,
                taken: AtomicUsize::new(0),
                due: Semaphore::new(0),
                check_request: check_request.clone(),
                start,
                end,
            });
            senders.extend(
                connections
                    .into_iter()
                    .map(|connection| runtime.spawn(send(Arc::clone(&lane), connection))),
            );
            lanes.push(lane);
        }
        for scheduled in requests {
            pause_until(start + Duration::from_micros(scheduled.at_us));
            lanes[scheduled.replica].due.add_permits(1);
        }
        // A sender that finds no request left has finished.
        lanes
            .iter()
            .for_each(|lane| lane.due.add_permits(CONNECTIONS_PER_REPLICA_MAX));
        let records = senders.into_iter().map(|sender| runtime.block_on(sender));
        records
            .flat_map(|records| records.expect("a sender does not panic"))
            .collect()
    }
}

/// Waits on this thread, with a finer resolution than a runtime's timers.
pub(super) fn pause_until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(timing::now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}

/// Sends requests on one connection until none is left.
async fn send(lane: Arc<ReplicaQueue>, connection: Connection) -> Vec<Record> {
    let mut records = Vec::with_capacity(lane.requests.len() / 4);
    let mut connection = Some(connection);
    let mut request = String::new();
    loop {
        let Ok(permit) = lane.due.acquire().await else {
            return records;
        };
        permit.forget();
        let Some(scheduled) = lane.requests.get(lane.taken.fetch_add(1, Relaxed)) else {
            return records;
        };
        lane.check_request
            .write(&mut request, scheduled.key, scheduled.cost);
        let sent = timing::now();
        let answer = if sent < lane.end {
            ask(&lane, &mut connection, &request).await
        } else {
            None
        };
        let received = timing::now();
        let (admitted, source) = answer.unwrap_or((false, DecisionSource::Missing));
        records.push(Record {
            scheduled_us: scheduled.at_us,
            sent_us: micros(sent - lane.start),
            received_us: micros(received - lane.start) + 1,
            key: scheduled.key,
            cost: scheduled.cost,
            admitted,
            source,
        });
    }
}

/// Sends a request on the connection, or on a new one if it was lost.
async fn ask(
    lane: &ReplicaQueue,
    connection: &mut Option<Connection>,
    request: &str,
) -> Option<(bool, DecisionSource)> {
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicI64;

    use super::*;

    /// A replica that admits requests while there is budget, which it may share with others.
    fn replica(budget: &Arc<AtomicI64>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let budget = Arc::clone(budget);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let budget = Arc::clone(&budget);
                std::thread::spawn(move || serve(&stream.unwrap(), &budget));
            }
        });
        addr
    }

    fn serve(stream: &TcpStream, budget: &AtomicI64) {
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            if let Some(value) = line.strip_prefix("Content-Length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                reader.read_exact(&mut vec![0; length]).unwrap();
                let status = if budget.fetch_sub(1, Relaxed) > 0 {
                    "200 OK"
                } else {
                    "429 No"
                };
                let body = r#"{"source":"store"}"#;
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let mut stream = stream;
                if stream.write_all((head + body).as_bytes()).is_err() {
                    return;
                }
            }
            line.clear();
        }
    }

    fn fire(replicas: &[SocketAddr], requests: &[ScheduledRequest]) -> Vec<Record> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let check_request = CheckRequest {
            limit: "any",
            cell: "c".to_owned(),
        };
        connect(&runtime, replicas)
            .unwrap()
            .fire(&check_request, requests, timing::now())
    }

    fn requests(count: u64) -> Vec<ScheduledRequest> {
        let scheduled = |index: u64| ScheduledRequest {
            at_us: index * 100,
            replica: usize::from(index % 2 == 1),
            key: 0,
            cost: 1,
        };
        (0..count).map(scheduled).collect()
    }

    #[test]
    fn every_request_is_sent_once_and_not_early() {
        let budget = Arc::new(AtomicI64::new(150));
        let mut records = fire(&[replica(&budget), replica(&budget)], &requests(400));
        records.sort_by_key(|record| record.scheduled_us);
        assert!(
            records
                .iter()
                .map(|record| record.scheduled_us)
                .eq((0..400).map(|index| index * 100))
        );
        assert!(
            records
                .iter()
                .all(|record| record.scheduled_us <= record.sent_us
                    && record.sent_us < record.received_us)
        );
        assert_eq!(records.iter().filter(|record| record.admitted).count(), 150);
        assert_eq!(
            records.iter().filter(|record| record.is_denied()).count(),
            250
        );
        assert_eq!(budget.load(Relaxed), 150 - 400);
    }

    #[test]
    fn a_dead_replica_fails_only_its_own_requests() {
        let budget = Arc::new(AtomicI64::new(1_000));
        // It accepts connections and closes them at the first request.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let taken: Vec<_> = (0..CONNECTIONS_PER_REPLICA_MAX)
                .map(|_| listener.accept())
                .collect();
            drop((taken, listener));
        });
        let records = fire(&[replica(&budget), gone], &requests(200));
        assert_eq!(records.len(), 200);
        assert_eq!(records.iter().filter(|record| record.admitted).count(), 100);
        assert_eq!(
            records
                .iter()
                .filter(|record| record.source == DecisionSource::Missing)
                .count(),
            100
        );
    }
}
