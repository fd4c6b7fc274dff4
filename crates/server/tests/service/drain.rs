//! Graceful shutdown: no connection breaks, and clients are asked to disconnect.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};
use crate::load::Connection;

const CLIENTS: usize = 16;
const REQUESTS_PER_CONNECTION: usize = 200;
const ROUNDS_MAX: usize = 10_000;
const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;

/// State that the clients and the test share.
#[derive(Default)]
struct Shared {
    asked: AtomicU64,
    /// The service is shutting down, so clients may be asked to disconnect.
    is_draining: AtomicBool,
}

/// Sends checks, now and then on a new connection, until the service asks to disconnect. Returns
/// the first error before that.
fn check_until_disconnected(service: &Tollgate, shared: &Shared) -> Result<(), String> {
    for _ in 0..ROUNDS_MAX {
        let mut connection =
            Connection::open(service.http).map_err(|error| format!("connecting: {error}"))?;
        for _ in 0..REQUESTS_PER_CONNECTION {
            let answer = connection
                .check(ANN)
                .map_err(|error| format!("a connection broke: {error}"))?;
            if answer.status != 200 && answer.status != 429 {
                return Err(format!("{answer:?}"));
            }
            shared.asked.fetch_add(1, Relaxed);
            if answer.is_last {
                let is_draining = shared.is_draining.load(Relaxed);
                return if is_draining {
                    Ok(())
                } else {
                    Err("asked to leave for no reason".to_owned())
                };
            }
        }
    }
    Err("never asked to leave".to_owned())
}

#[test]
fn a_shutdown_under_load_breaks_no_connection() {
    let mut service = Tollgate::start();
    let shared = Shared::default();
    let faults: Vec<String> = thread::scope(|scope| {
        let ask = || check_until_disconnected(&service, &shared);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        wait::until_true(PATIENCE, "load", || shared.asked.load(Relaxed) > 1_000);
        shared.is_draining.store(true, Relaxed);
        service.signal("TERM");
        clients
            .into_iter()
            .filter_map(|client| client.join().expect("no panic").err())
            .collect()
    });
    assert_eq!(faults, Vec::<String>::new());
    assert!(service.wait_for_exit().success());
}

#[test]
fn a_shutdown_finishes_requests_and_closes_idle_connections() {
    let mut service = Tollgate::start();
    let _idle = Connection::open(service.http).expect("a connection");
    let mut slow = Connection::open(service.http).expect("a connection");
    let (head, rest) = ANN.split_at(10);
    let length = ANN.len();
    slow.send(
        format!("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{head}")
            .as_bytes(),
    )
    .expect("it is sent");
    // Once another request is answered, the service has read this one.
    service.check(ANN);
    service.signal("TERM");
    service.wait_for_log("shutting down");
    slow.send(rest.as_bytes()).expect("it is sent");
    let answer = slow.answer().expect("it is answered");
    assert!(answer.status == 200 && answer.is_last, "{answer:?}");
    assert!(service.wait_for_exit().success());
}
