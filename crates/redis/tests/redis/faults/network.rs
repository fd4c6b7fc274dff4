//! Faults of the network: nobody answers, or not in time, or not what was said.

use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate_redis::RedisBuilder;

use super::figures::Memory;
use super::load::{DEADLINE, Load, Plan};
use super::row::Row;
use super::watched::Fate;
use crate::common::PATIENT;

/// A load on one server, through a proxy.
pub(super) fn load_through(row: Row, proxy: &FaultProxy, server: &Server) -> Load {
    plan_through(row, proxy, server).start()
}

fn plan_through(row: Row, proxy: &FaultProxy, server: &Server) -> Plan {
    let store = RedisBuilder::standalone(format!("redis://{}", proxy.addr()));
    Plan::new(row, store, RedisBuilder::standalone(server.url()))
}

/// What a store says of a server that takes connections and answers nothing on them.
const SILENT: &str = "timed out";

/// What happens to the connections there are when a fault begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Stay,
    Reset,
}

/// A fault that leaves the store without answers until it is over.
fn cut_off(name: &'static str, existing: Existing, faults: &[Fault], complaint: &str) {
    let row = Row::begin(name);
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);
    for fault in faults {
        proxy.set(*fault);
        if existing == Existing::Reset {
            proxy.cut();
        }
        load.complains_of(complaint);
        load.decides(800);
        proxy.clear();
        load.recovers();
        load.decides(100);
    }
    let record = load.stop();
    let figures = record.figures(Memory::Kept, [&server]);
    figures.hold();
    assert!(figures.degraded() >= 400, "the store was cut off");
}

#[test]
fn refused() {
    cut_off(
        "refused",
        Existing::Reset,
        &[Fault::Refuse],
        "Connection refused",
    );
}

#[test]
fn black_hole() {
    cut_off(
        "black hole mid-stream",
        Existing::Stay,
        &[Fault::BlackHole],
        SILENT,
    );
}

#[test]
fn syn_dropped() {
    cut_off("SYN dropped", Existing::Reset, &[Fault::DropSyn], SILENT);
}

/// Again and again, so that much is charged that nobody is told of.
#[test]
fn reply_lost() {
    let row = Row::begin("reply lost after the script ran");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);
    for _ in 0..6 {
        proxy.set(Fault::DropReplies);
        load.degrades();
        proxy.clear();
        load.recovers();
        load.decides(100);
    }
    let record = load.stop();
    let figures = record.figures(Memory::Kept, [&server]);
    figures.hold();
    assert!(figures.gap() > 0, "scripts ran whose replies were lost");
}

#[test]
fn a_kilobyte_a_second() {
    cut_off(
        "1 kB/s",
        Existing::Stay,
        &[Fault::Throttle {
            bytes_per_second: 1_000,
        }],
        SILENT,
    );
}

#[test]
fn garbage() {
    cut_off(
        "garbage RESP",
        Existing::Stay,
        &[Fault::Garbage],
        "not a reply",
    );
}

#[test]
fn giant_headers() {
    cut_off(
        "giant bulk header, giant list header",
        Existing::Stay,
        &[Fault::GiantBulk, Fault::GiantArray],
        "too long",
    );
}

/// Once in the middle of a header, once in the middle of an answer, and all the time.
#[test]
fn reset_mid_reply() {
    let row = Row::begin("reset mid-reply");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);
    for after_bytes in [0, 1, 3, 10, 40, 100] {
        let connections = load.store().stats().connections;
        proxy.set(Fault::CutNextReply { after_bytes });
        wait::until_true(PATIENT, "another connection", || {
            load.store().stats().connections > connections
        });
        load.recovers();
        load.decides(60);
    }
    proxy.set(Fault::CutReplies { after_bytes: 20 });
    load.degrades();
    load.decides(500);
    proxy.clear();
    load.recovers();
    load.stop().figures(Memory::Kept, [&server]).hold();
}

/// Of half a deadline nobody notices much; of one nothing is in time; after two the store is left
/// alone. The deadline is one beside which the noise of a busy machine is small.
#[test]
fn delay() {
    let row = Row::begin("delay of half, one and two deadlines");
    let deadline = DEADLINE * 10;
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = plan_through(row, &proxy, &server)
        .deadline(deadline)
        .start();
    let from = load.now();
    proxy.set(Fault::DelayReplies(deadline / 2));
    load.decides(300);
    let told = load.told(from, load.now());
    let by_store = told.iter().filter(|(told, _)| !told.is_degraded).count();
    for delay in [deadline, deadline * 2] {
        proxy.set(Fault::DelayReplies(delay));
        load.degrades();
        load.decides(500);
        proxy.clear();
        load.recovers();
        load.decides(100);
    }
    load.stop().figures(Memory::Kept, [&server]).hold();
    println!(
        "  half a deadline {by_store} of {} by the store",
        told.len()
    );
    assert!(
        by_store * 2 > told.len(),
        "a delay of half a deadline is survived"
    );
}

/// The proxy needs its time for so many small writes, so the deadline is long. Where even that is
/// not enough, the first that gets no answer is late: what is read wrong would break the connection
/// before.
#[test]
fn slices() {
    let row = Row::begin("1-byte slices");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let load = plan_through(row, &proxy, &server).deadline(PATIENT).start();
    proxy.set(Fault::Slice);
    let from = load.now();
    load.decides(200);
    let told = load.told(from, load.now());
    proxy.clear();
    let record = load.stop();
    record.figures(Memory::Kept, [&server]).hold();
    assert!(
        told.iter().any(|(told, _)| !told.is_degraded),
        "answers in pieces are answers"
    );
    let first = record.told.iter().find(|told| told.is_degraded);
    assert!(
        first.is_none_or(|told| told.fate == Fate::Lost("timeout")),
        "none was read wrong: {first:?}"
    );
}

/// Late answers arrive on a connection that goes on, so the next in line must not take them for
/// theirs.
#[test]
fn late_reply() {
    let row = Row::begin("late reply after timeout");
    let deadline = DEADLINE * 5;
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = plan_through(row, &proxy, &server)
        .deadline(deadline)
        .start();
    let before = load.store().stats();
    for _ in 0..LATE {
        // What passes now arrives late, and what follows right behind it.
        proxy.set(Fault::DelayReplies(deadline * 3 / 2));
        load.lasts(deadline / 4);
        proxy.clear();
        load.recovers();
        load.decides(30);
    }
    let connections = load.store().stats().connections - before.connections;
    let record = load.stop();
    record.figures(Memory::Kept, [&server]).hold();
    let late = record
        .told
        .iter()
        .filter(|told| told.fate == Fate::Lost("timeout"))
        .count();
    println!("  late            {late} answers, {connections} connections more");
    assert!(late as u64 >= LATE, "answers came late");
    assert!(connections < LATE, "they came on connections that went on");
}

/// How often answers are made late.
const LATE: u64 = 20;

#[test]
fn flapping() {
    let row = Row::begin("flapping every 100 ms");
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    let mut load = load_through(row, &proxy, &server);
    proxy.set(Fault::Flap {
        every: Duration::from_millis(100),
    });
    load.degrades();
    load.decides(4_000);
    proxy.clear();
    load.recovers();
    load.stop().figures(Memory::Kept, [&server]).hold();
}

#[test]
fn tls_stalled() {
    let row = Row::begin("TLS stalled");
    let server = Server::builder(Flavor::Redis).tls().start();
    let proxy = FaultProxy::start(server.addr());
    let trusting = |url: String| RedisBuilder::standalone(url).ca_pem(server.ca_pem());
    let store = trusting(format!("rediss://{}", proxy.addr()));
    let mut load = Plan::new(row, store, trusting(server.url())).start();
    proxy.set(Fault::StallNew);
    proxy.cut();
    load.complains_of(SILENT);
    load.decides(1_000);
    proxy.clear();
    load.recovers();
    load.stop().figures(Memory::Kept, [&server]).hold();
}
