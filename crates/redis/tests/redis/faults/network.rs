//! Faults of the network: no replies, late replies and invalid replies.

use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use super::fault_row::FaultRow;
use super::figures::DataLoss;
use super::load::{DEADLINE, Load, LoadPlan};
use super::recording_store::CallFate;
use crate::common::PATIENT;

/// A load on one server, through a proxy.
pub(super) fn load_through(row: FaultRow, proxy: &FaultProxy, server: &Server) -> Load {
    plan_through(row, proxy, server).start()
}

fn plan_through(row: FaultRow, proxy: &FaultProxy, server: &Server) -> LoadPlan {
    let store = RedisBuilder::standalone(format!("redis://{}", proxy.addr()));
    LoadPlan::new(row, store, RedisBuilder::standalone(server.url()))
}

/// The error of a store whose server accepts connections and does not reply.
const SILENT: &str = "timed out";

/// What happens to existing connections when a fault begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingConnections {
    Stay,
    Reset,
}

/// A fault during which the store gets no replies.
fn interrupt(
    name: &'static str,
    existing: ExistingConnections,
    faults: &[Fault],
    store_error: &str,
) {
    let row = FaultRow::begin(name);
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);

    for fault in faults {
        proxy.set(*fault);
        if existing == ExistingConnections::Reset {
            proxy.cut();
        }
        load.wait_for_error(store_error);
        load.wait_for_decisions(800);
        proxy.clear();
        load.wait_until_recovered();
        load.wait_for_decisions(100);
    }

    let record = load.stop();
    let figures = record.figures(DataLoss::None, [&server]);
    figures.print_and_assert();
    assert!(figures.degraded() >= 400, "the store was unavailable");
}

#[test]
fn refused() {
    interrupt(
        "refused",
        ExistingConnections::Reset,
        &[Fault::Refuse],
        "Connection refused",
    );
}

#[test]
fn black_hole() {
    interrupt(
        "black hole mid-stream",
        ExistingConnections::Stay,
        &[Fault::BlackHole],
        SILENT,
    );
}

#[test]
fn syn_dropped() {
    interrupt(
        "SYN dropped",
        ExistingConnections::Reset,
        &[Fault::DropSyn],
        SILENT,
    );
}

/// Many times, so that many units are charged for checks without a reply.
#[test]
fn reply_lost() {
    let row = FaultRow::begin("reply lost after the script ran");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);

    for _ in 0..6 {
        proxy.set(Fault::DropReplies);
        load.wait_until_degraded();
        proxy.clear();
        load.wait_until_recovered();
        load.wait_for_decisions(100);
    }

    let record = load.stop();
    let figures = record.figures(DataLoss::None, [&server]);
    figures.print_and_assert();
    assert!(figures.gap() > 0, "scripts ran whose replies were lost");
}

#[test]
fn a_kilobyte_a_second() {
    interrupt(
        "1 kB/s",
        ExistingConnections::Stay,
        &[Fault::Throttle {
            bytes_per_second: 1_000,
        }],
        // The calls time out, or the link is taken for slower than the timeout.
        "time",
    );
}

#[test]
fn garbage() {
    interrupt(
        "garbage RESP",
        ExistingConnections::Stay,
        &[Fault::Garbage],
        "not in the Redis protocol",
    );
}

#[test]
fn giant_headers() {
    interrupt(
        "giant bulk header, giant list header",
        ExistingConnections::Stay,
        &[Fault::GiantBulk, Fault::GiantArray],
        "too long",
    );
}

/// The connection is closed at several positions of one reply, and then in every reply.
#[test]
fn reset_mid_reply() {
    let row = FaultRow::begin("reset mid-reply");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);

    for after_bytes in [0, 1, 3, 10, 40, 100] {
        let connections = load.store().stats().connections;
        proxy.set(Fault::CutNextReply { after_bytes });
        wait::until_true(PATIENT, "another connection", || {
            load.store().stats().connections > connections
        });
        load.wait_until_recovered();
        load.wait_for_decisions(60);
    }
    proxy.set(Fault::CutReplies { after_bytes: 20 });
    load.wait_until_degraded();
    load.wait_for_decisions(500);
    proxy.clear();
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}

/// With a delay of half a deadline, most replies are in time; with one deadline, none is; with two,
/// the store is not called any more. The deadline is long compared with the delays of a busy
/// machine.
#[test]
fn delay() {
    let row = FaultRow::begin("delay of half, one and two deadlines");
    let deadline = DEADLINE * 10;
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = plan_through(row, &proxy, &server)
        .deadline(deadline)
        .start();
    let from = load.now();

    proxy.set(Fault::DelayReplies(deadline / 2));
    load.wait_for_decisions(300);
    let checks = load.checks_between(from, load.now());
    let by_store = checks
        .iter()
        .filter(|(check, _)| !check.is_degraded)
        .count();
    for delay in [deadline, deadline * 2] {
        proxy.set(Fault::DelayReplies(delay));
        load.wait_until_degraded();
        load.wait_for_decisions(500);
        proxy.clear();
        load.wait_until_recovered();
        load.wait_for_decisions(100);
    }

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();

    println!(
        "  half a deadline {by_store} of {} by the store",
        checks.len()
    );
    assert!(
        by_store * 2 > checks.len(),
        "a delay of half a deadline is tolerated"
    );
}

/// The proxy takes long for many small writes, so the deadline is long. If even that is not enough,
/// the first failure must be a timeout: a parse error would have closed the connection before.
#[test]
fn slices() {
    let row = FaultRow::begin("1-byte slices");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let load = plan_through(row, &proxy, &server).deadline(PATIENT).start();

    proxy.set(Fault::Slice);
    let from = load.now();
    load.wait_for_decisions(200);
    let checks = load.checks_between(from, load.now());
    proxy.clear();

    let record = load.stop();
    record.figures(DataLoss::None, [&server]).print_and_assert();
    assert!(
        checks.iter().any(|(check, _)| !check.is_degraded),
        "replies in pieces are parsed"
    );

    let first = record.checks.iter().find(|check| check.is_degraded);
    assert!(
        first.is_none_or(|check| check.fate == CallFate::Lost("store_timeout")),
        "no reply was misread: {first:?}"
    );
}

/// Late replies arrive on a connection that stays open, and must not be taken for the replies to
/// later calls.
#[test]
fn late_reply() {
    let row = FaultRow::begin("late reply after timeout");
    let deadline = DEADLINE * 5;
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = plan_through(row, &proxy, &server)
        .deadline(deadline)
        .start();
    let before = load.store().stats();

    for _ in 0..LATE {
        // Replies are delayed now, and later ones follow them without a delay.
        proxy.set(Fault::DelayReplies(deadline * 3 / 2));
        load.run_for(deadline / 4);
        proxy.clear();
        load.wait_until_recovered();
        load.wait_for_decisions(30);
    }
    let connections = load.store().stats().connections - before.connections;

    let record = load.stop();
    record.figures(DataLoss::None, [&server]).print_and_assert();

    let late = record
        .checks
        .iter()
        .filter(|check| check.fate == CallFate::Lost("store_timeout"))
        .count();
    println!("  late            {late} replies, {connections} more connections");
    assert!(late as u64 >= LATE, "replies came late");
    assert!(connections < LATE, "the connections stayed open");
}

/// How often replies are delayed.
const LATE: u64 = 20;

#[test]
fn flapping() {
    let row = FaultRow::begin("flapping every 100 ms");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);

    proxy.set(Fault::Flap {
        every: Duration::from_millis(100),
    });
    load.wait_until_degraded();
    load.wait_for_decisions(4_000);
    proxy.clear();
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}

#[test]
fn tls_stalled() {
    let row = FaultRow::begin("TLS stalled");
    let server = Server::builder(Flavor::Redis).tls().start();
    let proxy = FaultProxy::start(server.addr());
    let builder = |url: String| RedisBuilder::standalone(url).ca_pem(server.ca_pem());
    let store = builder(format!("rediss://{}", proxy.addr()));
    let mut load = LoadPlan::new(row, store, builder(server.url())).start();

    proxy.set(Fault::StallNew);
    proxy.cut();
    load.wait_for_error(SILENT);
    load.wait_for_decisions(1_000);
    proxy.clear();
    load.wait_until_recovered();

    load.stop()
        .figures(DataLoss::None, [&server])
        .print_and_assert();
}
