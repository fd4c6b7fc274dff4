//! What one script may do, and that its bounds charge nothing. Sets and lists that would take long
//! to fill by calls are planted.

use std::time::Duration;

use testkit::servers::{Flavor, Reply, Server};
use tollgate::store::{Refusal, SettlementKind};
use tollgate::{Limit, Limiter, ReservationExpiry};
use tollgate_redis::records::RecordBounds;

use crate::common;

const MINUTE: Duration = Duration::from_mins(1);

/// KEYS: the hash and the sorted set of the reservations of a counter. ARGV: how many to add, how
/// many of them have expired, their window and their units. The set has one more member.
const PLANT_RESERVATIONS: &str = r"
local time, count, expired = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time[1] * 1000000 + time[2]
redis.call('ZADD', KEYS[2], 0, 'u')
for j = 1, count do
  local id, expires = string.format('%016d', j), j <= expired and now - 1 or now + 60000000
  redis.call('ZADD', KEYS[2], expires, id)
  redis.call('HSET', KEYS[1], id, struct.pack('<ddd', expires, ARGV[3], ARGV[4]))
end
redis.call('HINCRBY', KEYS[1], 'u', count * ARGV[4])
return redis.call('ZCARD', KEYS[2])
";

/// The key of a counter, from the name of its limit.
fn counter(server: &Server, limit: &str) -> String {
    let keys = server.keys().into_iter();
    let mut keys = keys.filter_map(|key| String::from_utf8(key).ok());
    let is_counter = |key: &String| {
        let shape = key.split_once(&format!("}}{limit}|"));
        shape.is_some_and(|(_, shape)| !shape.contains('|'))
    };
    keys.find(is_counter).expect("the limit has a counter")
}

fn number(reply: &Reply) -> i64 {
    reply.as_int().expect("the reply is a number")
}

/// How often a command has been called, by scripts, too.
fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let text = stats.as_str().expect("text").to_owned();
    let line = text.lines().find_map(|line| {
        let rest = line.strip_prefix(&format!("cmdstat_{command}:calls="))?;
        rest.split_once(',')?.0.parse().ok()
    });
    line.unwrap_or_default()
}

/// A request that is denied by the bound on open reservations charges none of its limits, and those
/// that have expired do not count.
#[test]
fn the_bound_on_open_reservations_charges_nothing() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limits = [
        Limit::fixed_window("full", 1_000_000, MINUTE),
        Limit::token_bucket("bucket", 1_000_000, tollgate::Rate::per_minute(1)),
        Limit::sliding_log("log", 1_000_000, MINUTE),
        Limit::fixed_window("shadow", 1_000_000, MINUTE).shadow(),
        Limit::fixed_window("other", 1_000_000, MINUTE),
    ];
    let limits = limits.map(|limit| limit.on_reservation_expiry(ReservationExpiry::Release));
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(store, limits).expect("valid limits");

    for full in ["full", "bucket", "log", "shadow"] {
        let used = async || {
            let peeked = limiter.peek("other", full).await.expect("available");
            1_000_000 - peeked.limits()[0].remaining()
        };
        let plant = |expired: &str| {
            let (first, key) = (counter(&server, full), full);
            let hash = format!("{first}|o");
            let index = format!("{first}|x");
            let words = ["EVAL", PLANT_RESERVATIONS, "2", &hash, &index, "65536"];
            let members = server.command(&[&words[..], &[expired, "0", "0"]].concat());
            assert!(number(&members) > 65_536, "{key}");
        };
        runtime.block_on(async {
            let open = limiter.reserve(full, full).and("other", full).await;
            assert!(open.expect("available").is_allowed());
        });
        plant("0");

        let is_shadow = full == "shadow";
        let bound = (!is_shadow).then_some(Refusal::Bound);
        runtime.block_on(async {
            let requests = [
                limiter.reserve(full, full),
                limiter.reserve(full, full).and("other", full),
                limiter.reserve("other", full).and(full, full),
            ];
            let before = used().await;
            for request in requests {
                let reservation = request.await.expect("available");
                assert_eq!(reservation.decision().refusal(), bound, "{full}");
                assert_eq!(reservation.is_allowed(), is_shadow, "{full}");
            }
            let charged = if is_shadow { 2 } else { 0 };
            assert_eq!(used().await - before, charged, "{full}");
        });

        // Some that have expired make room.
        plant("3");
        runtime.block_on(async {
            let reservation = limiter.reserve(full, full).and("other", full).await;
            assert!(reservation.expect("available").is_allowed(), "{full}");
        });
    }
    assert_eq!(limiter.health().degraded_allowed, 0);
}

/// A malformed shadow counter begins again, and the others are settled once, as if it were empty.
#[test]
fn a_malformed_shadow_counter_does_not_repeat_a_settlement() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limits = [
        Limit::fixed_window("enforced", 100, MINUTE),
        Limit::fixed_window("shadow", 100, MINUTE).shadow(),
        Limit::sliding_window("second", 100, MINUTE),
    ];
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(store, limits).expect("valid limits");

    for (key, order) in [
        ("first", ["shadow", "enforced", "second"]),
        ("last", ["enforced", "second", "shadow"]),
        ("middle", ["enforced", "shadow", "second"]),
    ] {
        for poisoned in ["", "|o", "|x"] {
            let key = format!("{key}{poisoned}");
            let reserved = runtime.block_on(async {
                let [one, two, three] = order;
                let reserve = limiter.reserve(one, &key).and(two, &key).and(three, &key);
                reserve.cost(10).await.expect("available")
            });
            let shadow = format!("{}{poisoned}", counter(&server, "shadow"));
            assert_eq!(number(&server.command(&["DEL", &shadow])), 1);
            server.command(&["SET", &shadow, "garbage"]);

            runtime.block_on(async {
                let settled = reserved.settle(3).await.expect("available");
                assert_eq!(settled, SettlementKind::Reserved, "{key} {poisoned:?}");
                for limit in ["enforced", "second"] {
                    let peeked = limiter.peek(limit, &key).await.expect("available");
                    assert_eq!(peeked.limits()[0].remaining(), 97, "{key} {limit}");
                }
            });
            server.command(&["FLUSHALL"]);
        }
    }
    assert_eq!(limiter.health().store_errors.total(), 0);
}

/// What has expired is ended within one budget for all demands of a script.
#[test]
fn the_demands_of_a_script_share_a_budget_for_what_has_expired() {
    const PLANT_PERMITS: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for j = 1, 1000 do
  local permit = string.format('%016d', j) .. struct.pack('<dd', 1, 60000000)
  redis.call('ZADD', KEYS[1], now - 1000000 + j, permit)
end
return redis.call('ZADD', KEYS[1], -1 - 1000, 's', -1 - now, 't')
";
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let names: Vec<String> = (0..8).map(|index| format!("limit-{index}")).collect();
    let limits = names
        .iter()
        .map(|name| Limit::concurrency(name, 1_000, MINUTE));
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(store, limits).expect("valid limits");
    let request = async || {
        let mut check = limiter.check(&names[0], "ann").and(&names[1], "ann");
        for name in &names[2..] {
            check = check.and(name, "ann");
        }
        check.await.expect("available")
    };

    assert!(runtime.block_on(request()).is_allowed());
    for name in &names {
        server.command(&["EVAL", PLANT_PERMITS, "1", &counter(&server, name)]);
    }
    let members = || {
        let sets = names.iter().map(|name| counter(&server, name));
        let sizes = sets.map(|set| number(&server.command(&["ZCARD", &set])));
        sizes.sum::<i64>()
    };
    let before = members();
    let is_allowed = |_| runtime.block_on(request()).is_allowed();
    assert!(!is_allowed(0), "those that are not ended still count");
    assert_eq!(before - members(), 512);

    // Later calls end the others.
    assert!((0..20).any(is_allowed));
}

/// Expired reservations of a log with many small hits take units from many of them, which are
/// removed together.
#[test]
fn used_up_hits_of_a_log_are_removed_in_one_pass() {
    const PLANT_HITS: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], struct.pack('<d', 8000))
for j = 1, 8000 do
  redis.call('RPUSH', KEYS[1], struct.pack('<dd', now - 8001 + j, 1))
end
return tostring(now)
";
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limit = Limit::sliding_log("log", 10_000, 60 * MINUTE);
    let limit = limit.on_reservation_expiry(ReservationExpiry::Release);
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(store, [limit]).expect("valid limits");

    let check = || runtime.block_on(async { limiter.check("log", "ann").await });
    assert!(check().expect("available").is_allowed());
    let log = counter(&server, "log");
    let window = server.command(&["EVAL", PLANT_HITS, "1", &log]);
    let (hash, index) = (format!("{log}|o"), format!("{log}|x"));
    server.command(&["DEL", &hash, &index]);
    let words = ["EVAL", PLANT_RESERVATIONS, "2", &hash, &index, "32", "32"];
    let window = window.as_str().expect("a time");
    server.command(&[&words[..], &[window, "20"]].concat());

    let before = calls(&server, "lrem");
    let decision = check().expect("available");
    assert_eq!(calls(&server, "lrem") - before, 1);
    let used = 8_000 - 32 * 20 + 1;
    assert_eq!(decision.limits()[0].remaining(), 10_000 - used);
    let left = server.command(&["LLEN", &log]);
    assert_eq!(u64::try_from(number(&left)).expect("a length"), 1 + used);
}

/// A call about records drops a few of those that have expired, and a page of a read ends although
/// all of them have.
#[test]
fn a_call_about_records_drops_some_that_have_expired() {
    const PLANT_RECORDS: &str = r"
redis.call('HSET', KEYS[1], '', string.rep('r', 16))
for j = 1, 20000 do
  redis.call('HSET', KEYS[1], 'id' .. j, struct.pack('<d', j) .. 'text')
  redis.call('ZADD', KEYS[2], j, 'id' .. j)
end
return redis.call('HSET', KEYS[1], 'poison', struct.pack('<d', 1 / 0) .. 'text')
";
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let store = common::standalone(&runtime, &server);
    let bounds = RecordBounds {
        group: "expired",
        records_max: 21_000,
        text_max: 100,
    };
    let [hash, index] = ["", ".expiry"].map(|end| format!("tollgate:{{records}}expired{end}"));
    server.command(&["EVAL", PLANT_RECORDS, "2", &hash, &index]);

    let put = store.put_record(&bounds, "new", "text", MINUTE);
    runtime.block_on(put).expect("available");
    let left = server.command(&["ZCARD", &index]);
    assert_eq!(number(&left), 20_000 - 256 + 1);

    let before = calls(&server, "hscan");
    let unknown = tollgate_redis::records::RecordRevision::random();
    let read = store.read_records(&bounds, unknown);
    let list = runtime.block_on(read).expect("available").expect("a list");
    assert_eq!(list.records.len(), 1, "only the new one is valid");
    let scans = calls(&server, "hscan") - before;
    assert!(scans < 5_000, "{scans}");
}
