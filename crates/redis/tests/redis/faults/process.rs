//! Faults of the server process: killed, frozen, restarted or not started yet.

use std::thread;
use std::time::Duration;

use testkit::servers::{Builder, Flavor, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use super::fault_row::FaultRow;
use super::figures::DataLoss;
use super::load::{Load, LoadPlan};
use super::recording_store::CallFate;

/// A load on one server, without a proxy.
pub(super) fn load_on(row: FaultRow, server: &Server) -> Load {
    plan_on(row, server).start()
}

pub(super) fn plan_on(row: FaultRow, server: &Server) -> LoadPlan {
    let builder = || RedisBuilder::standalone(server.url());
    LoadPlan::new(row, builder(), builder())
}

/// A server that persists every write before it replies, in a directory that a restart does not
/// clear.
fn persistent(flavor: Flavor) -> Builder {
    let server = Server::builder(flavor).config("appendonly", "yes");
    server
        .config("appendfsync", "no")
        .config("appenddirname", "kept")
}

#[test]
fn kill_9() {
    let row = FaultRow::begin("kill -9, and a restart with persisted data");
    let server = persistent(Flavor::Redis).start();
    let mut load = load_on(row, &server);

    server.kill();
    load.wait_until_degraded();
    load.wait_for_decisions(500);
    server.restart();
    load.wait_until_recovered();

    let record = load.stop();
    let figures = record.figures(DataLoss::None, [&server]);
    figures.print_and_assert();
    assert!(figures.degraded() >= 400, "the server was unavailable");
}

#[test]
fn restart_empty() {
    let row = FaultRow::begin("restart empty");
    let server = Server::start(Flavor::Valkey);
    let mut load = load_on(row, &server);

    server.kill();
    load.wait_until_degraded();
    load.note_flush(load.last_decided());
    load.wait_for_decisions(100);
    server.restart();
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::Flushed, [&server])
        .print_and_assert();
}

fn frozen(name: &'static str, length: Duration) {
    let row = FaultRow::begin(name);
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);

    server.freeze();
    load.wait_until_degraded();
    load.run_for(length);
    server.thaw();
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}

#[test]
fn freeze_2_s() {
    frozen("freeze 2 s", Duration::from_secs(2));
}

#[test]
#[ignore = "long: cargo xtask faults"]
fn freeze_30_s() {
    frozen("freeze 30 s", Duration::from_secs(30));
}

/// Half a deadline, one, one and a half, and two and a half: before and after each timeout of a
/// link.
#[test]
fn freeze_and_thaw_around_the_deadline() {
    let row = FaultRow::begin("freeze and thaw around the deadline");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);

    for millis in [5, 10, 15, 25].into_iter().cycle().take(20) {
        server.freeze();
        load.run_for(Duration::from_millis(millis));
        server.thaw();
        load.wait_until_recovered();
        load.wait_for_decisions(40);
    }

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}

#[test]
fn down_at_start() {
    let row = FaultRow::begin("down at start");
    let server = Server::start(Flavor::Redis);

    server.kill();
    let mut load = plan_on(row, &server).without_store().start();
    let checks = load.checks_between(Duration::ZERO, load.now());
    assert!(
        checks
            .iter()
            .all(|(check, _)| check.fate == CallFate::NotSent("unavailable")),
        "no call waited for a connection"
    );
    server.restart();
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}

/// A server that loads its data accepts connections and replies that it is loading.
#[test]
fn loading() {
    let row = FaultRow::begin("LOADING");
    let server = Server::builder(Flavor::Redis)
        // A restart deletes the file with the default name.
        .config("dbfilename", "kept.rdb")
        .config("key-load-delay", "500")
        .config("loading-process-events-interval-bytes", "1024")
        .start();
    let mut load = load_on(row, &server);

    server.command(&["DEBUG", "POPULATE", "2000"]);
    // The server exits without a reply.
    server
        .client()
        .send(&[b"SHUTDOWN", b"SAVE"])
        .expect("the server is available");
    wait::until_true(Duration::from_secs(10), "the end of the server", || {
        !server.is_running()
    });
    thread::scope(|scope| {
        // It returns when the server has loaded everything.
        let restart = scope.spawn(|| server.restart());
        load.wait_for_error("LOADING");
        restart.join().expect("the server starts");
    });
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}
