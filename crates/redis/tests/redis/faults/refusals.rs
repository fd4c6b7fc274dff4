//! Servers that are there and say no.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Client, Flavor, Reply, Server};
use testkit::wait;
use tollgate::Micros;

use super::figures::Memory;
use super::load::Load;
use super::network::load_through;
use super::process::{load_on, plan_on};
use super::row::Row;
use super::subjects::KEYS;
use super::watched::Fate;

/// The password of whoever has one.
const SECRET: &str = "hunter2";

/// Runs a command that must work.
pub(super) fn must(server: &Server, words: &[&str]) -> Reply {
    let reply = server.command(words);
    assert!(reply.error().is_none(), "{words:?} was refused: {reply:?}");
    reply
}

/// The number that a line of `INFO` tells.
fn info(server: &Server, name: &str) -> u64 {
    let reply = must(server, &["INFO"]);
    let text = reply.as_str().expect("it is a text");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value
        .and_then(|value| value.parse().ok())
        .expect("it is told as a number")
}

/// Some decisions by policy, then the end of the fault, then the figures.
fn holds(mut load: Load, server: &Server, complaint: &str, clear: impl FnOnce()) {
    load.degrades();
    load.complains_of(complaint);
    load.decides(500);
    clear();
    load.recovers();
    let record = load.stop();
    record.figures(Memory::Kept, [server]).hold();
    let said = record.complaint.unwrap_or_default();
    assert!(
        !said.contains(SECRET),
        "a password is nobody's business: {said}"
    );
}

#[test]
fn busy_script() {
    let row = Row::begin("BUSY script");
    let server = Server::builder(Flavor::Redis)
        .config("busy-reply-threshold", "1")
        .start();
    let load = load_on(row, &server);
    let mut other = server.client();
    other
        .send(&[b"EVAL", b"while true do end", b"0"])
        .expect("the server is there");
    holds(load, &server, "BUSY", || {
        must(&server, &["SCRIPT", "KILL"]);
    });
}

/// The script is sent along when it is missing, on the same connection, so no policy has to answer.
/// The deadline is one at which a slow machine does not make it.
#[test]
fn script_flush() {
    let row = Row::begin("SCRIPT FLUSH 100/s");
    let server = Server::start(Flavor::Valkey);
    let load = plan_on(row, &server)
        .deadline(Duration::from_millis(500))
        .start();
    let mut other = server.client();
    for _ in 0..100 {
        other
            .call(&["SCRIPT", "FLUSH"])
            .expect("the server is there");
        load.lasts(Duration::from_millis(10));
    }
    let record = load.stop();
    let figures = record.figures(Memory::Kept, [&server]);
    figures.hold();
    assert_eq!(
        figures.degraded(),
        0,
        "a script that is missing is no failure"
    );
    let stats = must(&server, &["INFO", "commandstats"]);
    assert!(
        stats
            .as_str()
            .is_some_and(|text| text.contains("cmdstat_eval:")),
        "it was missing, and sent along"
    );
}

#[test]
fn flushall() {
    let row = Row::begin("FLUSHALL");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);
    let mut other = server.client();
    for words in [&["MULTI"][..], &["TIME"], &["FLUSHALL"]] {
        other.call(words).expect("the server is there");
    }
    let done = other.call(&["EXEC"]).expect("the server is there");
    let time: Vec<u64> = done.items()[0]
        .items()
        .iter()
        .filter_map(Reply::as_int)
        .map(i64::unsigned_abs)
        .collect();
    load.forgot(Micros::new(time[0] * 1_000_000 + time[1]));
    load.decides(500);
    load.stop().figures(Memory::Emptied, [&server]).hold();
}

#[test]
fn out_of_memory_without_eviction() {
    let row = Row::begin("OOM with noeviction");
    let server = Server::builder(Flavor::Valkey)
        .config("maxmemory-policy", "noeviction")
        .start();
    let load = load_on(row, &server);
    must(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    holds(load, &server, "OOM", || {
        must(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    });
}

/// A server that may evict forgets counters, and each time it forgets one is worth a burst: the
/// price of that setting.
#[test]
fn eviction() {
    let row = Row::begin("eviction on");
    let builder = Server::builder(Flavor::Redis).config("maxmemory-policy", "allkeys-lru");
    let server = builder.config("notify-keyspace-events", "Ee").start();
    let load = load_on(row, &server);
    let mut news = server.client();
    news.call(&["SUBSCRIBE", "__keyevent@0__:evicted"])
        .expect("the server is there");
    // News that nobody reads would take up memory in the server.
    let evicted = thread::spawn(move || evicted(news));
    let room = info(&server, "used_memory") + 200_000;
    must(&server, &["CONFIG", "SET", "maxmemory", &room.to_string()]);
    let (mut other, filler) = (server.client(), "x".repeat(1_000));
    for number in 0..2_000 {
        let key = format!("filler:{number}");
        other
            .call(&["SET", &key, &filler, "PX", "60000"])
            .expect("the server is there");
    }
    load.decides(500);
    let record = load.stop();
    must(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    let evicted = evicted.join().expect("it only reads");
    let times = evicted.values().copied().max().unwrap_or_default();
    record.figures(Memory::Evicted { times }, [&server]).hold();
    println!(
        "  evicted         {} keys of the store, {times} times at most",
        evicted.len()
    );
    assert!(times > 0, "the server was short of memory");
}

/// How often each key of the store was evicted, until the news end.
fn evicted(mut news: Client) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    while let Ok(told) = news.receive() {
        let key = told
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
    let row = Row::begin("maxclients reached");
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
        "a server that takes no more clients",
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
    holds(load, &server, "max number of clients", move || drop(others));
}

/// What was rotated is put back: a store cannot guess a password.
#[test]
fn password_rotated() {
    let row = Row::begin("password rotated");
    let server = Server::builder(Flavor::Redis).password(SECRET).start();
    let load = load_on(row, &server);
    must(&server, &["CONFIG", "SET", "requirepass", "other"]);
    must(&server, &["CLIENT", "KILL", "TYPE", "normal"]);
    holds(load, &server, "WRONGPASS", || {
        must(&server, &["CONFIG", "SET", "requirepass", SECRET]);
    });
}

#[test]
fn acl_without_eval() {
    let row = Row::begin("ACL without EVAL");
    let server = Server::builder(Flavor::Valkey)
        .user("limiter", SECRET, "~tollgate:* +@all")
        .start();
    let load = load_on(row, &server);
    must(&server, &["ACL", "SETUSER", "limiter", "-eval", "-evalsha"]);
    holds(load, &server, "NOPERM", || {
        must(&server, &["ACL", "SETUSER", "limiter", "+eval", "+evalsha"]);
    });
}

/// Only the limits whose counters were spoiled answer by policy.
#[test]
fn wrong_type_at_a_key() {
    let row = Row::begin("wrong type at a key");
    let server = Server::start(Flavor::Redis);
    let mut load = load_on(row, &server);
    let spoiled: Vec<Vec<u8>> = server
        .keys()
        .into_iter()
        .filter(|key| is_victim(key))
        .collect();
    assert_eq!(spoiled.len(), SPOILED.len(), "each of them has a counter");
    let mut other = server.client();
    for key in &spoiled {
        let was_text = other
            .call_bytes(&[b"TYPE", key])
            .expect("the server is there")
            .as_str()
            == Some("string");
        let words: &[&[u8]] = if was_text {
            &[b"SADD", key, b"a set"]
        } else {
            &[b"SET", key, b"a text"]
        };
        other
            .call_bytes(&[b"DEL", key])
            .expect("the server is there");
        other.call_bytes(words).expect("the server is there");
        other
            .call_bytes(&[b"PEXPIRE", key, b"60000"])
            .expect("the server is there");
    }
    load.degrades();
    load.decides(1_000);
    for key in &spoiled {
        other
            .call_bytes(&[b"DEL", key])
            .expect("the server is there");
    }
    load.recovers_for(|subject| subject.key_number == VICTIM && subject.limit == Some(SPOILED[0]));
    let record = load.stop();
    record.figures(Memory::Spoiled, [&server]).hold();
    let refused = record.told.iter().filter(|told| told.fate == Fate::Refused);
    let victims: Vec<_> = refused.map(|told| &record.subjects[told.subject]).collect();
    let is_hit = |limit: &str| victims.iter().any(|subject| subject.limit == Some(limit));
    assert!(
        SPOILED.iter().all(|limit| is_hit(limit)),
        "each of them was asked for"
    );
    assert!(
        victims
            .iter()
            .all(|subject| is_spoiled(subject.key_number, subject.limit)),
        "nobody else was touched"
    );
}

/// The key whose counters are spoiled, and the limits whose they are: one for each way in which
/// counters are kept.
const VICTIM: usize = KEYS / 2;
const SPOILED: [&str; 4] = ["bucket", "sliding", "log", "flight"];

fn is_spoiled(key_number: usize, limit: Option<&str>) -> bool {
    key_number == VICTIM && limit.is_some_and(|limit| SPOILED.contains(&limit))
}

fn is_victim(key: &[u8]) -> bool {
    let text = String::from_utf8_lossy(key);
    SPOILED
        .iter()
        .any(|limit| text.contains(&format!("{{=key-{VICTIM}}}{limit}|")))
}

/// A disk that cannot be written: the server takes no more writes until a snapshot succeeds.
#[test]
fn disk_full() {
    let row = Row::begin("disk full MISCONF");
    let server = Server::builder(Flavor::Redis)
        .config("save", "3600 1")
        .start();
    let load = load_on(row, &server);
    let directory = server.directory().display().to_string();
    // Not even root can write there.
    must(&server, &["CONFIG", "SET", "dir", "/proc"]);
    must(&server, &["BGSAVE"]);
    holds(load, &server, "MISCONF", || {
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
