//! Garbage in the keys of a limit, as another program on the same server may write it: no call
//! makes the script fail, the failure policy decides none of them, and the limit still limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::dice::Dice;
use testkit::servers::{Flavor, Server};
use testkit::volume;
use tollgate::store::Refusal;
use tollgate::{Consistency, FailurePolicy, Limit, Limiter, Lockout, Rate, ReservationExpiry};

use crate::common;

const MINUTE: Duration = Duration::from_mins(1);

/// KEYS: a key. ARGV: a number from 0 to 2, bytes as hexadecimal digits, how often they are repeated,
/// a position, and a score. Puts the bytes in the place of the whole value, or of a part of it, or
/// behind it. Of a hash, also in the place of the marks of its reservations.
const PLANT: &str = r"
local bytes = ARGV[2]:gsub('..', function(digits) return string.char(tonumber(digits, 16)) end)
bytes = bytes:rep(tonumber(ARGV[3]))
local kind, way, at = redis.call('TYPE', KEYS[1]).ok, tonumber(ARGV[1]), tonumber(ARGV[4])
local function changed(value)
  if way == 0 then return bytes end
  if way == 1 then return value .. bytes end
  return value:sub(1, at) .. bytes .. value:sub(at + #bytes + 1)
end
if kind == 'string' then
  redis.call('SET', KEYS[1], changed(redis.call('GET', KEYS[1])))
elseif kind == 'hash' then
  local fields = redis.call('HKEYS', KEYS[1])
  local field = fields[at % #fields + 1]
  if #field == 16 and way == 1 then
    redis.call('SET', KEYS[1]:sub(1, -2) .. 'e' .. field:reverse(), bytes)
  else
    redis.call('HSET', KEYS[1], field, changed(redis.call('HGET', KEYS[1], field)))
  end
elseif kind == 'zset' then
  redis.call('ZADD', KEYS[1], ARGV[5], bytes)
elseif kind == 'list' then
  local index = at % redis.call('LLEN', KEYS[1])
  redis.call('LSET', KEYS[1], index, changed(redis.call('LINDEX', KEYS[1], index)))
end
redis.call('PERSIST', KEYS[1])
return kind
";

fn limits() -> Vec<Limit> {
    let lockout = Lockout::new(2, MINUTE, MINUTE).expect("a valid lockout");
    let strict = vec![
        Limit::fixed_window("fixed", 10, MINUTE),
        Limit::sliding_window("sliding", 10, MINUTE),
        Limit::sliding_log("log", 10, MINUTE),
        Limit::token_bucket("bucket", 10, Rate::per_minute(10)),
        Limit::queue("queue", 10, Rate::per_minute(10)),
        Limit::concurrency("in-flight", 10, MINUTE),
        Limit::fixed_window("login", 1, MINUTE).lockout(lockout),
    ];
    let leased = [
        Limit::fixed_window("leased-fixed", 1_000, MINUTE),
        Limit::sliding_window("leased-sliding", 1_000, MINUTE),
        Limit::token_bucket("leased-bucket", 1_000, Rate::per_minute(1_000)),
    ];
    let leased = leased.map(|limit| limit.consistency(Consistency::Leased));
    let all = strict.into_iter().chain(leased).map(|limit| {
        let limit = limit.on_store_failure(FailurePolicy::Allow);
        limit.on_reservation_expiry(ReservationExpiry::Release)
    });
    all.collect()
}

/// Lengths at which counters end, and others.
const LENGTHS: [usize; 13] = [0, 1, 7, 8, 8, 8, 16, 24, 32, 80, 88, 96, 200];

/// Numbers that no counter has, and some that it may have.
const NUMBERS: [f64; 12] = [
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    -1.0,
    -1e15,
    0.5,
    1e300,
    9_007_199_254_740_993.0,
    2e15,
    1e16,
    0.0,
    5.0,
];

/// Bytes, and how often they are repeated: rarely up to a megabyte.
fn bytes(dice: &mut Dice) -> (Vec<u8>, usize) {
    let length = *dice.one_of(&LENGTHS);
    let bytes = match dice.below(4) {
        0 => (0..length)
            .map(|_| u8::try_from(dice.below(256)).expect("a byte"))
            .collect(),
        1 => vec![*dice.one_of(&[0, b'x', 0xff]); length],
        _ => {
            let numbers: Vec<u8> = (0..length.div_ceil(8))
                .flat_map(|_| dice.one_of(&NUMBERS).to_le_bytes())
                .collect();
            numbers
        }
    };
    let is_long = dice.chance(20) && !bytes.is_empty();
    let times = if is_long { 1_000_000 / bytes.len() } else { 1 };
    (bytes, times)
}

/// Plants garbage in a key. Returns what it was.
fn plant(server: &Server, stored: &str, dice: &mut Dice) -> String {
    let (bytes, times) = bytes(dice);
    let digits = bytes.iter().fold(String::new(), |digits, byte| {
        digits + &format!("{byte:02x}")
    });
    let way = dice.below(3).to_string();
    // Often at the beginning of a number.
    let at = if dice.chance(300) {
        dice.below(24)
    } else {
        8 * dice.below(12)
    };
    let at = at.to_string();
    let scores = ["0", "-1", "1e300", "inf", "-inf", "2000000000000000", "0.5"];
    let (score, times) = (*dice.one_of(&scores), times.to_string());
    let words = [
        "EVAL", PLANT, "1", stored, &way, &digits, &times, &at, score,
    ];
    let kind = server.command(&words);
    format!("{kind:?} {stored:?} {way} {digits} x{times} {at} {score}")
}

/// Asks until the limit must have denied, and returns the units that have been admitted since a
/// malformed counter was found the last time. At the end the limit denies.
async fn admitted(limiter: &Limiter, name: &str, key: &str, limit: u64) -> u64 {
    let cost = limit.div_ceil(10);
    let (mut admitted, mut is_last_allowed) = (0, false);
    for _ in 0..4 * limit / cost {
        let decision = limiter
            .check(name, key)
            .cost(cost)
            .await
            .expect("a decision");
        is_last_allowed = decision.is_allowed();
        if decision.refusal() == Some(Refusal::Malformed) {
            admitted = 0;
        }
        admitted += if is_last_allowed { cost } else { 0 };
    }
    assert!(!is_last_allowed, "{name} limits");
    admitted
}

#[test]
fn no_garbage_makes_the_script_fail_and_every_limit_still_limits() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Valkey));
    let limiter = || {
        let store = common::standalone(&runtime, &server);
        Limiter::new(store, limits()).expect("valid limits")
    };
    // Leases of the one that fills the counters must not answer for the other.
    let (filler, asker) = (limiter(), limiter());

    let mut dice = Dice::new(volume::seed());
    for round in 0..volume::of(2_000) {
        let limit = dice.one_of(&limits()).clone();
        let (name, key) = (limit.name(), format!("key-{round}"));
        let open = runtime.block_on(async {
            let open = filler.reserve(name, &key).await.expect("available");
            drop(filler.reserve(name, &key).await.expect("available"));
            drop(filler.check(name, &key).await);
            drop(filler.check(name, &key).await);
            open
        });

        let mut planted = Vec::new();
        for stored in server.keys() {
            // A mark has the bytes of an id.
            if let Ok(stored) = String::from_utf8(stored)
                && dice.chance(700)
            {
                planted.push(plant(&server, &stored, &mut dice));
            }
        }

        let units = runtime.block_on(async {
            for _ in 0..6 {
                drop(asker.check(name, &key).await.expect("a decision"));
                drop(asker.reserve(name, &key).await.expect("a decision"));
                drop(asker.peek(name, &key).await);
            }
            drop(open.settle(3).await);
            drop(asker.refund(name, &key).await);
            admitted(&asker, name, &key, limit_of(name)).await
        });
        let health = asker.health();
        let errors = health.store_errors;
        assert_eq!(errors.script, 0, "{name}: {planted:#?}");
        assert_eq!(health.degraded_allowed, 0, "{name}: {planted:#?}");
        assert_eq!(errors.total(), errors.malformed, "{name}: {planted:#?}");
        let fillers = filler.health().store_errors;
        assert_eq!(fillers.total(), fillers.malformed, "{name}: {planted:#?}");
        // Background calls of a leased limit may find the malformed counter.
        let bursts = if name.starts_with("leased") { 2 } else { 1 };
        let limit = bursts * limit_of(name);
        assert!(units <= limit, "{name}: {units} of {limit}, {planted:#?}");
        server.command(&["FLUSHALL"]);
    }
}

fn limit_of(name: &str) -> u64 {
    match name {
        "login" => 1,
        _ if name.starts_with("leased") => 1_000,
        _ => 10,
    }
}

/// A malformed counter that is found by something else than a check is logged once, too, with its
/// limit and a digest of its key.
#[test]
fn every_operation_logs_a_malformed_counter() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limits = [
        Limit::fixed_window("fixed", 10, MINUTE),
        Limit::sliding_window("sliding", 10, MINUTE),
        Limit::concurrency("in-flight", 10, MINUTE),
    ];
    let store = common::standalone(&runtime, &server);
    let limiter = Limiter::new(store, limits).expect("valid limits");
    let poison = |limit: &str| {
        for key in server.keys() {
            let key = String::from_utf8(key).expect("text");
            if key.contains(limit) {
                server.command(&["DEL", &key]);
                server.command(&["SADD", &key, "garbage"]);
            }
        }
    };
    let logged = |operation: &dyn Fn()| {
        let log = Arc::new(Mutex::new(String::new()));
        let recorder = common::LogRecorder::new(log.clone(), tracing::Level::WARN);
        tracing::subscriber::with_default(recorder, operation);
        let log = log.lock().expect("the lock is not poisoned");
        log.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let expect = |lines: Vec<String>, limit: &str| {
        let [line] = &lines[..] else {
            panic!("one line for {limit}: {lines:?}")
        };
        assert!(line.contains(&format!("limit=\"{limit}\"")), "{line}");
        assert!(line.contains("key_digest"), "{line}");
    };

    let reserve = || {
        let reserve = async { limiter.reserve("fixed", "ann").and("sliding", "ann").await };
        let open = runtime.block_on(reserve).expect("available");
        assert!(open.is_allowed());
        open
    };
    for limit in ["fixed", "sliding"] {
        let open = reserve();
        poison(limit);
        let lines = logged(&|| assert!(runtime.block_on(open.settle(1)).is_err()));
        expect(lines, limit);

        server.command(&["FLUSHALL"]);
        drop(reserve());
        poison(limit);
        let lines = logged(&|| {
            let refund = async { limiter.refund("fixed", "ann").and("sliding", "ann").await };
            assert!(runtime.block_on(refund).is_err());
        });
        expect(lines, limit);
        server.command(&["FLUSHALL"]);
    }

    let permit = || {
        let check = async { limiter.check("in-flight", "ann").await };
        let decision = runtime.block_on(check).expect("available");
        decision.permit_id().expect("a permit")
    };
    let id = permit();
    poison("in-flight");
    let lines = logged(&|| {
        let release = async { limiter.release("in-flight", "ann", id).await };
        assert!(runtime.block_on(release).is_err());
    });
    expect(lines, "in-flight");
    assert_eq!(limiter.health().store_errors.malformed, 5);
}
