//! A traced load against small replicas: which requests arrive, when, and what fails.

#![expect(clippy::unwrap_used, reason = "all code here is test code")]

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tollgate_load::{
    KeyDistribution, LoadPlan, Replica, RequestKind, RequestParams, ScheduledRequest,
    TracedRequest, ValueTemplate, run_traced,
};

/// No response takes this long, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(600);
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// The paths of the requests that a replica has received.
type ReceivedPaths = Arc<Mutex<Vec<String>>>;

async fn bind() -> (TcpListener, Replica) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let replica = Replica::from(listener.local_addr().unwrap());
    (listener, replica)
}

/// A replica that allows every request.
async fn live_replica() -> (Replica, ReceivedPaths) {
    let (listener, replica) = bind().await;
    let received = ReceivedPaths::default();
    let paths = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, Arc::clone(&paths)));
        }
    });
    (replica, received)
}

/// A replica that closes every connection and responds to no request.
async fn dead_replica() -> Replica {
    let (listener, replica) = bind().await;
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    replica
}

async fn serve(stream: TcpStream, paths: ReceivedPaths) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();

    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        if let Some(rest) = line.strip_prefix("GET ") {
            let path = rest.split(' ').next().unwrap_or_default();
            paths.lock().unwrap().push(path.to_owned());
        } else if line == "\r\n" {
            stream.write_all(RESPONSE).await.unwrap();
        }
        line.clear();
    }
}

fn plan(replicas: Vec<Replica>) -> LoadPlan {
    let request = RequestKind::Get {
        path: ValueTemplate::parse("/{key}").unwrap(),
        headers: Vec::new(),
    };
    LoadPlan {
        keys: KeyDistribution::uniform(NonZeroU32::new(1_000).unwrap()),
        connections: 4,
        timeout: TIMEOUT,
        ..LoadPlan::new(replicas, request)
    }
}

/// Requests with a key each, in pairs that are due at the same time, to two replicas in turn.
fn requests() -> Vec<ScheduledRequest> {
    let request = |key: u32| ScheduledRequest {
        due_us: u64::from(key / 2) * 700,
        replica: usize::from(!key.is_multiple_of(2)),
        params: RequestParams {
            key,
            address: 0,
            cost: None,
        },
    };
    (0..60).map(request).collect()
}

/// The trace in the order of the keys.
async fn trace(plan: LoadPlan) -> Vec<TracedRequest> {
    let mut trace = run_traced(plan, |_| requests()).await.unwrap();
    trace.sort_by_key(|traced| traced.request.params.key);

    let traced: Vec<ScheduledRequest> = trace.iter().map(|traced| traced.request).collect();
    assert_eq!(traced, requests(), "the trace has every request once");
    trace
}

/// The paths of the requests to one replica.
fn paths_to(replica: usize) -> Vec<String> {
    let requests = requests().into_iter();
    let mut paths: Vec<String> = requests
        .filter(|request| request.replica == replica)
        .map(|request| format!("/key-{}", request.params.key))
        .collect();
    paths.sort();
    paths
}

fn sorted(received: &ReceivedPaths) -> Vec<String> {
    let mut paths = received.lock().unwrap().clone();
    paths.sort();
    paths
}

#[tokio::test]
async fn each_request_is_sent_once_and_not_before_its_time() {
    let (first, first_received) = live_replica().await;
    let (second, second_received) = live_replica().await;
    let trace = trace(plan(vec![first, second])).await;

    for TracedRequest { request, decision } in trace {
        let decision = decision.expect("a live replica responds to every request");
        assert!(decision.is_allowed, "{request:?}");
        assert!(decision.sent_us >= request.due_us, "{request:?}");
        assert!(decision.received_us > decision.sent_us, "{request:?}");
    }
    assert_eq!(sorted(&first_received), paths_to(0));
    assert_eq!(sorted(&second_received), paths_to(1));
}

#[tokio::test]
async fn a_dead_replica_fails_only_its_own_requests() {
    let (live, received) = live_replica().await;
    let trace = trace(plan(vec![live, dead_replica().await])).await;

    for TracedRequest { request, decision } in trace {
        assert_eq!(decision.is_some(), request.replica == 0, "{request:?}");
    }
    assert_eq!(sorted(&received), paths_to(0));
}
