//! Servers that are available and reply with errors.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Client, Flavor, Reply, Server};
use testkit::wait;
use tollgate::Micros;

use super::fault_row::FaultRow;
use super::figures::DataLoss;
use super::load::Load;
use super::network::load_through;
use super::process::{load_on, plan_on};
use super::recording_store::CallFate;
use super::subjects::KEYS;

/// The password of the tests that use one.
const SECRET: &str = "hunter2";

/// Runs a command that must succeed.
pub(super) fn must(server: &Server, words: &[&str]) -> Reply {
    let reply = server.command(words);
    assert!(reply.error().is_none(), "{words:?} was refused: {reply:?}");
    reply
}

/// A number in the output of `INFO`.
fn info(server: &Server, name: &str) -> u64 {
    let reply = must(server, &["INFO"]);
    let text = reply.as_str().expect("INFO replies with text");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value
        .and_then(|value| value.parse().ok())
        .expect("the value is a number")
}

/// Waits for decisions by failure policies, clears the fault, and asserts the figures.
fn assert_survives(mut load: Load, server: &Server, store_error: &str, clear: impl FnOnce()) {
    load.wait_until_degraded();
    load.wait_for_error(store_error);
    load.wait_for_decisions(500);
    clear();
    load.wait_until_recovered();

    let record = load.stop();
    record.figures(DataLoss::None, [server]).print_and_assert();
    let error = record.store_error.unwrap_or_default();
    assert!(!error.contains(SECRET), "the password is shown: {error}");
}

#[test]
fn busy_script() {
    let row = FaultRow::begin("BUSY script");
    let server = Server::builder(Flavor::Redis)
        .config("busy-reply-threshold", "1")
        .start();
    let load = load_on(row, &server);
    let mut other = server.client();

    other
        .send(&[b"EVAL", b"while true do end", b"0"])
        .expect("the server is available");

    assert_survives(load, &server, "BUSY", || {
        must(&server, &["SCRIPT", "KILL"]);
    });
}

/// A missing script is sent again on the same connection, so no failure policy has to decide. The
/// deadline is long enough for a slow machine.
#[test]
fn script_flush() {
    let row = FaultRow::begin("SCRIPT FLUSH 100/s");
    let server = Server::start(Flavor::Valkey);
    let load = plan_on(row, &server)
        .deadline(Duration::from_millis(500))
        .start();
    let mut other = server.client();

    for _ in 0..100 {
        other
            .call(&["SCRIPT", "FLUSH"])
            .expect("the server is available");
        load.run_for(Duration::from_millis(10));
    }

    let record = load.stop();
    let figures = record.figures(DataLoss::None, [&server]);
    figures.print_and_assert();
    assert_eq!(
        figures.degraded(),
        0,
        "a missing script does not fail a call"
    );

    let stats = must(&server, &["INFO", "commandstats"]);
    assert!(
        stats
            .as_str()
            .is_some_and(|text| text.contains("cmdstat_eval:")),
        "the script was missing, and sent with EVAL"
    );
}

#[test]
fn flushall() {
    let row = FaultRow::begin("FLUSHALL");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);
    let mut other = server.client();

    for words in [&["MULTI"][..], &["TIME"], &["FLUSHALL"]] {
        other.call(words).expect("the server is available");
    }
    let done = other.call(&["EXEC"]).expect("the server is available");
    let time: Vec<u64> = done.items()[0]
        .items()
        .iter()
        .filter_map(Reply::as_int)
        .map(i64::unsigned_abs)
        .collect();
    load.note_flush(Micros::new(time[0] * 1_000_000 + time[1]));
    load.wait_for_decisions(500);

    load.stop()
        .figures(DataLoss::Flushed, [&server])
        .print_and_assert();
}

#[test]
fn out_of_memory_without_eviction() {
    let row = FaultRow::begin("OOM with noeviction");
    let server = Server::builder(Flavor::Valkey)
        .config("maxmemory-policy", "noeviction")
        .start();
    let load = load_on(row, &server);
    must(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    assert_survives(load, &server, "OOM", || {
        must(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    });
}

/// A server that may evict keys loses counters, and each loss permits another burst: the price of
/// that setting.
#[test]
fn eviction() {
    let row = FaultRow::begin("eviction on");
    let builder = Server::builder(Flavor::Redis).config("maxmemory-policy", "allkeys-lru");
    let server = builder.config("notify-keyspace-events", "Ee").start();
    let load = load_on(row, &server);
    let mut news = server.client();

    news.call(&["SUBSCRIBE", "__keyevent@0__:evicted"])
        .expect("the server is available");
    // Notifications that are not read would take up memory in the server.
    let evicted = thread::spawn(move || evicted(news));
    let room = info(&server, "used_memory") + 200_000;
    must(&server, &["CONFIG", "SET", "maxmemory", &room.to_string()]);
    let (mut other, filler) = (server.client(), "x".repeat(1_000));
    for number in 0..2_000 {
        let key = format!("filler:{number}");
        other
            .call(&["SET", &key, &filler, "PX", "60000"])
            .expect("the server is available");
    }
    load.wait_for_decisions(500);

    let record = load.stop();
    must(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    let evicted = evicted.join().expect("the thread only reads");
    let times = evicted.values().copied().max().unwrap_or_default();
    record
        .figures(DataLoss::Evicted { times }, [&server])
        .print_and_assert();

    println!(
        "  evicted         {} keys of the store, {times} times at most",
        evicted.len()
    );
    assert!(times > 0, "the server was short of memory");
}

/// How often each key of the store was evicted, until the connection is closed.
fn evicted(mut news: Client) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    while let Ok(message) = news.receive() {
        let key = message
            .items()
            .last()
            .and_then(Reply::as_str)
            .unwrap_or_default();
        if key.starts_with("tollgate:") {
            *times.entry(key.to_owned()).or_default() += 1;
        }
    }

    times
}

#[test]
fn maxclients() {
    let row = FaultRow::begin("maxclients reached");
    let server = Server::builder(Flavor::Redis)
        .config("maxclients", "40")
        .start();
    let proxy = FaultProxy::start(server.addr());
    let load = load_through(row, &proxy, &server);

    proxy.set(Fault::Refuse);
    proxy.cut();
    let mut others = Vec::new();
    wait::until_true(
        Duration::from_secs(10),
        "the server to reject clients",
        || {
            let mut other = Client::connect(server.addr()).expect("the server listens");
            let is_full = other
                .call(&["PING"])
                .is_ok_and(|reply| reply.error().is_some());
            others.push(other);
            is_full
        },
    );
    proxy.clear();

    assert_survives(load, &server, "max number of clients", move || drop(others));
}

/// The old password is restored in the end, because the store does not know the new one.
#[test]
fn password_rotated() {
    let row = FaultRow::begin("password rotated");
    let server = Server::builder(Flavor::Redis).password(SECRET).start();
    let load = load_on(row, &server);
    must(&server, &["CONFIG", "SET", "requirepass", "other"]);
    must(&server, &["CLIENT", "KILL", "TYPE", "normal"]);
    assert_survives(load, &server, "WRONGPASS", || {
        must(&server, &["CONFIG", "SET", "requirepass", SECRET]);
    });
}

#[test]
fn acl_without_eval() {
    let row = FaultRow::begin("ACL without EVAL");
    let server = Server::builder(Flavor::Valkey)
        .user("limiter", SECRET, "~tollgate:* +@all")
        .start();
    let load = load_on(row, &server);
    must(&server, &["ACL", "SETUSER", "limiter", "-eval", "-evalsha"]);
    assert_survives(load, &server, "NOPERM", || {
        must(&server, &["ACL", "SETUSER", "limiter", "+eval", "+evalsha"]);
    });
}

/// The calls that find a corrupted counter are denied, whatever the failure policy, and the counter
/// begins again, empty. No failure policy decides.
#[test]
fn wrong_type_at_a_key() {
    let row = FaultRow::begin("wrong type at a key");
    let server = Server::start(Flavor::Redis);
    let load = load_on(row, &server);
    let corrupted: Vec<Vec<u8>> = server
        .keys()
        .into_iter()
        .filter(|key| is_victim(key))
        .collect();

    assert_eq!(corrupted.len(), CORRUPTED.len(), "each limit has a counter");
    let mut other = server.client();
    for key in &corrupted {
        let was_text = other
            .call_bytes(&[b"TYPE", key])
            .expect("the server is available")
            .as_str()
            == Some("string");
        let words: &[&[u8]] = if was_text {
            &[b"SADD", key, b"a set"]
        } else {
            &[b"SET", key, b"a text"]
        };
        other
            .call_bytes(&[b"DEL", key])
            .expect("the server is available");
        other.call_bytes(words).expect("the server is available");
        other
            .call_bytes(&[b"PEXPIRE", key, b"60000"])
            .expect("the server is available");
    }
    load.wait_for_decisions(2_000);
    for key in &corrupted {
        let kind = other.call_bytes(&[b"TYPE", key]);
        let kind = kind.expect("the server is available");
        assert_ne!(kind.as_str(), Some("set"), "the counter has healed");
    }

    let record = load.stop();
    record
        .figures(DataLoss::Corrupted, [&server])
        .print_and_assert();

    let refused = record
        .checks
        .iter()
        .filter(|check| check.fate == CallFate::Refused);
    let refused: Vec<_> = refused.collect();
    assert!(refused.iter().all(|check| !check.is_degraded));
    let victims: Vec<_> = refused
        .iter()
        .map(|check| &record.subjects[check.subject])
        .collect();
    let is_hit = |limit: &str| victims.iter().any(|subject| subject.limit == Some(limit));
    assert!(
        CORRUPTED.iter().all(|limit| is_hit(limit)),
        "each corrupted counter was checked"
    );
    assert!(
        victims
            .iter()
            .all(|subject| is_corrupted(subject.key_number, subject.limit)),
        "no other counter was affected"
    );
}

/// The key and the limits whose counters are corrupted: one limit for each representation of
/// counters.
const VICTIM: usize = KEYS / 2;
const CORRUPTED: [&str; 4] = ["bucket", "sliding", "log", "flight"];

fn is_corrupted(key_number: usize, limit: Option<&str>) -> bool {
    key_number == VICTIM && limit.is_some_and(|limit| CORRUPTED.contains(&limit))
}

fn is_victim(key: &[u8]) -> bool {
    let text = String::from_utf8_lossy(key);
    CORRUPTED
        .iter()
        .any(|limit| text.contains(&format!("{{=key-{VICTIM}}}{limit}|")))
}

/// The disk cannot be written: the server accepts no writes until a snapshot succeeds.
#[test]
fn disk_full() {
    let row = FaultRow::begin("disk full MISCONF");
    let server = Server::builder(Flavor::Redis)
        .config("save", "3600 1")
        .start();
    let load = load_on(row, &server);
    let directory = server.directory().display().to_string();

    // Even root cannot write there.
    must(&server, &["CONFIG", "SET", "dir", "/proc"]);
    must(&server, &["BGSAVE"]);

    assert_survives(load, &server, "MISCONF", || {
        must(&server, &["CONFIG", "SET", "dir", &directory]);
        must(&server, &["BGSAVE"]);
        wait::until_true(Duration::from_secs(10), "a snapshot", || {
            let reply = must(&server, &["INFO", "persistence"]);
            reply
                .as_str()
                .is_some_and(|text| text.contains("rdb_last_bgsave_status:ok"))
        });
    });
}
