//! Leaving: nobody's connection breaks, and everyone is asked to go elsewhere.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};
use crate::load::Connection;

const CLIENTS: usize = 16;
const REQUESTS_PER_CONNECTION: usize = 200;
const ROUNDS_MAX: usize = 10_000;
const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;

/// What the clients and the test tell each other.
#[derive(Default)]
struct Shared {
    asked: AtomicU64,
    /// The service was told to stop, so that whoever is asked to leave goes elsewhere.
    is_leaving: AtomicBool,
}

/// Asks, on a new connection every so often, until it is asked to leave; gives what went wrong
/// before that.
fn ask_until_asked_to_leave(service: &Tollgate, shared: &Shared) -> Result<(), String> {
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
                let is_leaving = shared.is_leaving.load(Relaxed);
                return if is_leaving {
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
fn nobody_is_cut_off_when_the_service_is_told_to_stop_under_load() {
    let mut service = Tollgate::start();
    let shared = Shared::default();
    let faults: Vec<String> = thread::scope(|scope| {
        let ask = || ask_until_asked_to_leave(&service, &shared);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        wait::until_true(PATIENCE, "load", || shared.asked.load(Relaxed) > 1_000);
        shared.is_leaving.store(true, Relaxed);
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
fn a_request_under_way_is_finished_and_an_idle_connection_does_not_hold_the_service() {
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
    // The service has seen the request once it answers another one.
    service.check(ANN);
    service.signal("TERM");
    service.wait_for_log("leaving");
    slow.send(rest.as_bytes()).expect("it is sent");
    let answer = slow.answer().expect("it is answered");
    assert!(answer.status == 200 && answer.is_last, "{answer:?}");
    assert!(service.wait_for_exit().success());
}
