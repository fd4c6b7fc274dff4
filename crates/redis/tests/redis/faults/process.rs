//! Faults of the server's process: it dies, stands still, or is not there yet.

use std::thread;
use std::time::Duration;

use testkit::servers::{Builder, Flavor, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use super::figures::Memory;
use super::load::{Load, Plan};
use super::row::Row;
use super::watched::Fate;

/// A load on one server, straight to it.
pub(super) fn load_on(row: Row, server: &Server) -> Load {
    plan_on(row, server).start()
}

pub(super) fn plan_on(row: Row, server: &Server) -> Plan {
    let builder = || RedisBuilder::standalone(server.url());
    Plan::new(row, builder(), builder())
}

/// A server that writes everything down before it answers, under a name that a restart does not
/// clear away.
fn remembering(flavor: Flavor) -> Builder {
    let server = Server::builder(flavor).config("appendonly", "yes");
    server
        .config("appendfsync", "no")
        .config("appenddirname", "kept")
}

#[test]
fn kill_9() {
    let row = Row::begin("kill -9, and a restart with what was written down");
    let server = remembering(Flavor::Redis).start();
    let mut load = load_on(row, &server);
    server.kill();
    load.degrades();
    load.decides(500);
    server.restart();
    load.recovers();
    let record = load.stop();
    let figures = record.figures(Memory::Kept, [&server]);
    figures.hold();
    assert!(figures.degraded() >= 400, "the server was away");
}

#[test]
fn restart_empty() {
    let row = Row::begin("restart empty");
    let server = Server::start(Flavor::Valkey);
    let mut load = load_on(row, &server);
    server.kill();
    load.degrades();
    load.forgot(load.last_decided());
    load.decides(100);
    server.restart();
    load.recovers();
    load.stop().figures(Memory::Emptied, [&server]).hold();
}

fn frozen(name: &'static str, length: Duration) {
    let row = Row::begin(name);
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);
    server.freeze();
    load.degrades();
    load.lasts(length);
    server.thaw();
    load.recovers();
    load.stop().figures(Memory::Kept, [&server]).hold();
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

/// Half a deadline, one, one and a half, and two and a half: just before and just after each thing
/// that happens then.
#[test]
fn freeze_and_thaw_around_the_deadline() {
    let row = Row::begin("freeze and thaw around the deadline");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);
    for millis in [5, 10, 15, 25].into_iter().cycle().take(20) {
        server.freeze();
        load.lasts(Duration::from_millis(millis));
        server.thaw();
        load.recovers();
        load.decides(40);
    }
    load.stop().figures(Memory::Kept, [&server]).hold();
}

#[test]
fn down_at_start() {
    let row = Row::begin("down at start");
    let server = Server::start(Flavor::Redis);
    server.kill();
    let mut load = plan_on(row, &server).without_store().start();
    let told = load.told(Duration::ZERO, load.now());
    assert!(
        told.iter()
            .all(|(told, _)| told.fate == Fate::NotSent("away")),
        "nobody was waited for"
    );
    server.restart();
    load.recovers();
    load.stop().figures(Memory::Kept, [&server]).hold();
}

/// A server that reads what it wrote down takes connections and says that it is loading.
#[test]
fn loading() {
    let row = Row::begin("LOADING");
    let server = Server::builder(Flavor::Redis)
        // A restart clears away what has the usual name.
        .config("dbfilename", "kept.rdb")
        .config("key-load-delay", "500")
        .config("loading-process-events-interval-bytes", "1024")
        .start();
    let mut load = load_on(row, &server);
    server.command(&["DEBUG", "POPULATE", "2000"]);
    // It has no time to answer.
    server
        .client()
        .send(&[b"SHUTDOWN", b"SAVE"])
        .expect("the server is there");
    wait::until_true(Duration::from_secs(10), "the end of the server", || {
        !server.is_running()
    });
    thread::scope(|scope| {
        // It returns when the server has loaded everything.
        let restart = scope.spawn(|| server.restart());
        load.complains_of("LOADING");
        restart.join().expect("the server starts");
    });
    load.recovers();
    load.stop().figures(Memory::Kept, [&server]).hold();
}
