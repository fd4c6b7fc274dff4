use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Clock as _, ManualClock};
use tollgate_rules::Config;

use super::share::SHARE_MAX;
use super::*;
use crate::listen::ListenLimits;

/// A front that decides in memory, by a clock of the test, and one connection to it.
struct Client {
    clock: ManualClock,
    front: RespFront,
    session: RespSession,
    runtime: tokio::runtime::Runtime,
}

/// A front that decides in memory, and gives one turn at a time.
fn front(config: &str, clock: &ManualClock) -> RespFront {
    let config = Config::parse(config, "t.yaml", &|_| None).expect("a valid configuration");
    let limits = ListenLimits {
        connections_max: 1,
        in_flight_max: 1,
        header_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
    };
    let gate = Arc::new(Gate::with_clock(clock, config));
    RespFront::new(gate, PortLoad::new("resp", limits), 1)
}

impl Client {
    fn new(config: &str) -> Self {
        let clock = ManualClock::default();
        let front = front(config, &clock);
        Self {
            session: front.open_session(),
            front,
            clock,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime"),
        }
    }

    /// Sends bytes and returns the replies, and what follows.
    fn send_bytes(&mut self, bytes: &[u8]) -> (String, usize, NextStep) {
        let mut output = Vec::new();
        let answered = self.front.answer(&mut self.session, bytes, &mut output);
        let (consumed, next) = self.runtime.block_on(answered);
        (
            String::from_utf8_lossy(&output).into_owned(),
            consumed,
            next,
        )
    }

    /// Sends a line and returns the reply.
    fn send(&mut self, line: &str) -> String {
        let (reply, ..) = self.send_bytes(format!("{line}\r\n").as_bytes());
        reply
    }

    /// Sends a line and returns the integers of the reply.
    fn integers(&mut self, line: &str) -> Vec<i64> {
        let reply = self.send(line);
        let lines = reply.lines().skip(1);
        let integers = lines.map(|line| line.strip_prefix(':').expect(&reply).parse());
        integers.collect::<Result<_, _>>().expect("integers")
    }
}

const LIMITS: &str = "
limits:
  - { name: api, key: [tenant], algorithm: token_bucket, capacity: 10, refill_rate: 1/s }
  - { name: login, key: [tenant, 'lower(email)'], algorithm: sliding_log, limit: 1, window: 1s }
  - { name: either, key: ['tenant | client_ip'], algorithm: sliding_log, limit: 1, window: 1s }
  - { name: all, key: [], algorithm: sliding_log, limit: 1, window: 1s }
  - { name: jobs, key: [tenant], algorithm: concurrency, limit: 3, permit_timeout: 1m }
  - { name: mail, key: [tenant], algorithm: leaky_bucket, mode: queue, capacity: 3, leak_rate: 1/s }
  - { name: ip, key: [client_ip], algorithm: sliding_log, limit: 1, window: 1s }
  - { name: big, key: [tenant], cost: 4, algorithm: token_bucket, capacity: 10, refill_rate: 1/s }
";

/// Milliseconds since the start, the numbers of the call, and the five integers.
const THROTTLE_ROWS: [(u64, &str, [i64; 5]); 24] = [
    // A burst of 2 and then one every 10 s: three at once.
    (0, "a 2 6 60", [0, 3, 2, -1, 10]),
    (0, "a 2 6 60 1", [0, 3, 1, -1, 20]),
    (0, "a 2 6 60", [0, 3, 0, -1, 30]),
    (0, "a 2 6 60", [1, 3, 0, 10, 30]),
    // A limited call changes nothing.
    (0, "a 2 6 60", [1, 3, 0, 10, 30]),
    (1, "a 2 6 60", [1, 3, 0, 10, 30]),
    // Seconds are rounded up.
    (9_001, "a 2 6 60", [1, 3, 0, 1, 21]),
    (9_999, "a 2 6 60", [1, 3, 0, 1, 21]),
    (10_000, "a 2 6 60", [0, 3, 0, -1, 30]),
    (25_000, "a 2 6 60", [0, 3, 0, -1, 25]),
    // A quantity of 0 looks, and is never limited.
    (25_000, "a 2 6 60 0", [0, 3, 0, -1, 25]),
    (35_000, "a 2 6 60 0", [0, 3, 1, -1, 15]),
    (35_000, "a 2 6 60 2", [1, 3, 1, 5, 15]),
    (40_000, "a 2 6 60 2", [0, 3, 0, -1, 30]),
    // More than the limit can never pass.
    (40_000, "a 2 6 60 4", [1, 3, 0, -1, 30]),
    (70_000, "a 2 6 60 4", [1, 3, 3, -1, 0]),
    (70_000, "a 2 6 60 3", [0, 3, 0, -1, 30]),
    // No burst: one at a time.
    (70_000, "b 0 1 1", [0, 1, 0, -1, 1]),
    (70_000, "b 0 1 1", [1, 1, 0, 1, 1]),
    (70_999, "b 0 1 1", [1, 1, 0, 1, 1]),
    (71_000, "b 0 1 1", [0, 1, 0, -1, 1]),
    // Many in a short time, and few in a very long one.
    (
        71_000,
        "c 999999 1000000 1 1000000",
        [0, 1_000_000, 0, -1, 1],
    ),
    (71_000, "d 0 13 31536000", [0, 1, 0, -1, 2_425_847]),
    (71_000, "e 9 1000 31536000 10", [0, 10, 0, -1, 315_360]),
];

#[test]
fn throttle_replies_with_five_integers() {
    let mut client = Client::new(LIMITS);
    let start = client.clock.now();
    for (row, (at_ms, call, expected)) in THROTTLE_ROWS.into_iter().enumerate() {
        client
            .clock
            .set(start.after(tollgate::Micros::from_millis(at_ms)));
        let command = ["CL.THROTTLE", "rl.throttle"][row % 2];
        assert_eq!(
            client.integers(&format!("{command} {call}")),
            expected,
            "row {row}: {call}"
        );
    }
}

/// redis-cell's documented arithmetic, slowly, with nothing rounded before the end: times are
/// `count`-ths of a microsecond.
#[derive(Default)]
struct CellModel {
    /// The theoretical arrival time of each key.
    arrivals: HashMap<u8, i128>,
}

impl CellModel {
    fn throttle(
        &mut self,
        key: u8,
        [max_burst, count, period_s, quantity]: [i128; 4],
        now_us: i128,
    ) -> Vec<i64> {
        let (now, limit) = (now_us * count, max_burst + 1);
        let emission = period_s * 1_000_000;
        let tolerance = emission * limit;
        let arrival = self.arrivals.get(&key).copied().unwrap_or(now).max(now);

        let next = arrival + emission * quantity;
        let allowed_at = next - tolerance;
        let is_limited = now < allowed_at;
        let arrival = if is_limited { arrival } else { next };
        if !is_limited {
            self.arrivals.insert(key, next);
        }

        let secs = |time: i128| -(-time).div_euclid(count * 1_000_000);
        let retry_after = if is_limited && quantity <= limit {
            secs(allowed_at - now)
        } else {
            -1
        };
        let reply = [
            i128::from(is_limited),
            limit,
            (tolerance - (arrival - now)).max(0) / emission,
            retry_after,
            secs(arrival - now),
        ];
        reply
            .map(|number| i64::try_from(number).expect("it fits"))
            .to_vec()
    }
}

proptest! {
    #[test]
    fn throttle_agrees_with_the_arithmetic_of_redis_cell(
        numbers in (0_i128..20, 1_i128..2_000, 1_i128..2_000),
        calls in prop::collection::vec((0_u8..3, 0_i128..25, 0_u64..3_000_000), 1..60),
    ) {
        let (max_burst, count, period_s) = numbers;
        let mut client = Client::new(LIMITS);
        let mut model = CellModel::default();
        for (key, quantity, pause_us) in calls {
            client.clock.advance(Duration::from_micros(pause_us));
            let now_us = i128::from(client.clock.now().get());
            let expected = model.throttle(key, [max_burst, count, period_s, quantity], now_us);
            let call = format!("CL.THROTTLE key-{key} {max_burst} {count} {period_s} {quantity}");
            prop_assert_eq!(client.integers(&call), expected, "{}", call);
        }
    }
}

#[test]
fn what_a_key_has_used_carries_over_to_other_numbers() {
    let mut client = Client::new(LIMITS);
    assert_eq!(
        client.integers("CL.THROTTLE a 9 10 10 5"),
        [0, 10, 5, -1, 5]
    );
    // Half of the bucket is used, whatever its size.
    assert_eq!(
        client.integers("CL.THROTTLE a 19 20 10 0"),
        [0, 20, 10, -1, 5]
    );
    assert_eq!(
        client.integers("CL.THROTTLE a 19 20 10 11"),
        [1, 20, 10, 1, 5]
    );
    assert_eq!(
        client.integers("CL.THROTTLE a 19 20 10 10"),
        [0, 20, 0, -1, 10]
    );
}

#[test]
fn configured_limits_are_checked_by_name() {
    let mut client = Client::new(LIMITS);
    assert_eq!(
        client.integers("TOLLGATE.CHECK api acme"),
        [0, 10, 9, -1, 1]
    );
    assert_eq!(
        client.integers("tollgate.check api acme 9"),
        [0, 10, 0, -1, 10]
    );
    assert_eq!(
        client.integers("TOLLGATE.CHECK api acme 2"),
        [1, 10, 0, 2, 10]
    );
    assert_eq!(
        client.integers("TOLLGATE.CHECK api acme 11"),
        [1, 10, 0, -1, 10]
    );
    assert_eq!(
        client.integers("TOLLGATE.CHECK api other 0"),
        [0, 10, 10, -1, 0]
    );
    assert_eq!(
        client.integers("TOLLGATE.CHECK big acme"),
        [0, 10, 6, -1, 4]
    );
    assert_eq!(
        client.integers("TOLLGATE.CHECK ip ::ffff:192.0.2.1"),
        [0, 1, 0, -1, 1]
    );
    assert_eq!(client.integers("TOLLGATE.CHECK ip 192.0.2.1")[0], 1);
}

/// `CL.THROTTLE` brings its numbers along, so `inline_limits` applies to it.
#[test]
fn the_configuration_restricts_throttles() {
    for (policy, line, expected) in [
        ("allow", "CL.THROTTLE a 9 1 1", "*5\r\n:0"),
        (
            "deny",
            "CL.THROTTLE a 9 1 1",
            "-NOPERM the configuration denies inline limits (`inline_limits: deny`)",
        ),
        ("deny", "TOLLGATE.CHECK api a", "*5\r\n:0"),
        ("{ limit_max: 10 }", "CL.THROTTLE a 9 1 1", "*5\r\n:0"),
        (
            "{ limit_max: 10 }",
            "RL.THROTTLE a 10 1 1",
            "-NOPERM the inline limit \"override:cl.throttle\" is 11; `inline_limits` allows at \
             most 10",
        ),
        (
            "{ names: [chat] }",
            "CL.THROTTLE a 9 1 1",
            "-NOPERM the configuration does not allow the inline limit \"override:cl.throttle\"",
        ),
        (
            "{ names: ['override:*'] }",
            "CL.THROTTLE a 9 1 1",
            "*5\r\n:0",
        ),
    ] {
        let mut client = Client::new(&format!("inline_limits: {policy}\n{LIMITS}"));
        let reply = client.send(line);
        assert!(reply.starts_with(expected), "{policy} {line}: {reply}");
    }
}

/// Commands that are refused, and how the reply starts.
const WRONG_ROWS: [(&str, &str); 36] = [
    (
        "CL.THROTTLE",
        "ERR wrong number of arguments for 'cl.throttle' command; usage: CL.THROTTLE key",
    ),
    ("CL.THROTTLE a 1 1", "ERR wrong number of arguments"),
    ("CL.THROTTLE a 1 1 1 1 1", "ERR wrong number of arguments"),
    (
        "CL.THROTTLE a x 1 1",
        "ERR invalid max_burst 'x'; must be an integer from 0 to",
    ),
    ("CL.THROTTLE a -1 1 1", "ERR invalid max_burst '-1'"),
    ("CL.THROTTLE a 1.5 1 1", "ERR invalid max_burst '1.5'"),
    ("CL.THROTTLE a +1 1 1", "ERR invalid max_burst '+1'"),
    (
        "CL.THROTTLE a 9007199254740992 1 1",
        "ERR invalid max_burst '9007199254740992'",
    ),
    (
        "CL.THROTTLE a 99999999999999999999 1 1",
        "ERR invalid max_burst '99999999999999999999'",
    ),
    (
        "CL.THROTTLE a 1 0 1",
        "ERR invalid count '0'; must be an integer from 1 to",
    ),
    ("CL.THROTTLE a 1 -5 1", "ERR invalid count '-5'"),
    (
        "CL.THROTTLE a 1 1 0",
        "ERR invalid period '0'; must be an integer from 1 to 3162240000",
    ),
    (
        "CL.THROTTLE a 1 1 1 -1",
        "ERR invalid quantity '-1'; must be an integer from 0 to",
    ),
    (
        "CL.THROTTLE a 1 1 1 9223372036854775808",
        "ERR invalid quantity '9223372036854775808'",
    ),
    ("CL.THROTTLE a 1 1 31536000", "ERR invalid numbers: "),
    ("CL.THROTTLE a 1 100000000 1", "ERR invalid numbers: "),
    ("CL.THROTTLE a 9000000000 1 60", "ERR invalid numbers: "),
    (
        "TOLLGATE.CHECK",
        "ERR wrong number of arguments for 'tollgate.check' command",
    ),
    (
        "TOLLGATE.CHECK nope a",
        "ERR unknown limit \"nope\"; expected one of api, login",
    ),
    (
        "TOLLGATE.CHECK api a x",
        "ERR invalid cost 'x'; must be an integer from 0 to",
    ),
    ("TOLLGATE.CHECK api a -1", "ERR invalid cost '-1'"),
    (
        "TOLLGATE.CHECK login a",
        "ERR the key of the limit `login` has several attributes: tenant, lower(email); TOLLGATE.CHECK needs exactly one",
    ),
    (
        "TOLLGATE.CHECK either a",
        "ERR the key of the limit `either` has several attributes: tenant | client_ip",
    ),
    (
        "TOLLGATE.CHECK all a",
        "ERR the key of the limit `all` has no attribute",
    ),
    (
        "TOLLGATE.CHECK jobs a",
        "ERR the limit `jobs` gives permits, which must be released; use POST /v1/check over HTTP",
    ),
    (
        "TOLLGATE.CHECK mail a",
        "ERR the limit `mail` tells how long to wait; use POST /v1/check",
    ),
    (
        "TOLLGATE.CHECK ip nonsense",
        "ERR invalid attribute `client_ip`",
    ),
    (
        "FLUSHALL now please",
        "ERR unknown command 'FLUSHALL', with args beginning with: 'now' 'please' ",
    ),
    ("SELECT 1", "ERR DB index is out of range"),
    (
        "AUTH secret",
        "ERR AUTH was called, but no tokens are configured",
    ),
    (
        "HELLO 4",
        "NOPROTO unsupported protocol version '4'; use 2 or 3",
    ),
    ("HELLO 3 SETNAME", "ERR syntax error at 'SETNAME'"),
    ("CLIENT", "ERR wrong number of arguments for 'client'"),
    (
        "CLIENT KILL 1",
        "ERR unknown subcommand or wrong number of arguments for 'KILL' of 'client'",
    ),
    ("COMMAND GETKEYS", "ERR unknown subcommand"),
    ("PING a b", "ERR wrong number of arguments for 'ping'"),
];

#[test]
fn a_wrong_command_says_what_is_wrong_and_changes_nothing() {
    let mut client = Client::new(LIMITS);
    for (line, expected) in WRONG_ROWS {
        let (reply, _, next) = client.send_bytes(format!("{line}\r\n").as_bytes());
        assert!(
            reply.starts_with(&format!("-{expected}")),
            "{line}: {reply}"
        );
        assert!(reply.len() < 600, "{line}: {reply}");
        // The connection can go on.
        assert_eq!(next, NextStep::Read, "{line}");
    }
    let long_key = client.send(&format!("CL.THROTTLE {} 1 1 1", "k".repeat(1_100)));
    assert!(
        long_key.starts_with("-ERR invalid key: key has 1103 bytes"),
        "{long_key}"
    );
    let (reply, ..) = client.send_bytes(b"*3\r\n$14\r\nTOLLGATE.CHECK\r\n$3\r\napi\r\n$0\r\n\r\n");
    assert!(
        reply.starts_with("-ERR invalid key; must be UTF-8 text"),
        "{reply}"
    );
    let (reply, ..) = client
        .send_bytes(b"*5\r\n$11\r\nCL.THROTTLE\r\n$0\r\n\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
    assert!(
        reply.starts_with("-ERR invalid key: empty key part"),
        "{reply}"
    );

    assert_eq!(client.integers("CL.THROTTLE a 1 1 1 0"), [0, 2, 2, -1, 0]);
    assert_eq!(
        client.integers("TOLLGATE.CHECK api a 0"),
        [0, 10, 10, -1, 0]
    );
}

#[test]
fn bytes_that_are_no_command_end_the_connection() {
    for (bytes, expected) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*1 \r\n", "invalid multibulk length"),
        (
            b"*129\r\n",
            "invalid multibulk length; a command has at most 128 arguments",
        ),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1111111111111111111111111", "invalid multibulk length"),
        (b"*1\rx", "invalid multibulk length"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*1\r\n\r\n", "expected '$', got '\\r'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (
            b"*1\r\n$8193\r\n",
            "invalid bulk length; an argument has at most 8192 bytes",
        ),
        (
            b"*1\r\n$4\r\nPINGPING\r\n",
            "expected CRLF after an argument",
        ),
        (b"*1\r\n$4\r\nPING\n", "expected CRLF after an argument"),
        (
            b"\x16\x03\x01\x02\x00\x01",
            "unexpected byte 0x16; is the client using TLS",
        ),
        (b"PING \x00\r\n", "unexpected byte 0x00"),
        (b"PING \"a b\"\r\n", "quotes in an inline command"),
        (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "this is not an HTTP port",
        ),
        (
            b"POST /v1/check HTTP/1.1\r\n\r\nCL.THROTTLE a 0 1 60\r\n",
            "this is not an HTTP port",
        ),
        (b"post / HTTP/1.1\r\n", "this is not an HTTP port"),
        (b"Host: 127.0.0.1\r\n", "this is not an HTTP port"),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "this is not an HTTP port",
        ),
        (
            &vec![b'x'; FRAME_MAX],
            "too big request; a command has at most 32768 bytes",
        ),
    ] {
        let mut client = Client::new(LIMITS);
        // What was sent before is still answered, what comes after is not.
        let whole = [b"PING\r\n", bytes, b"\r\nCL.THROTTLE a 0 1 60\r\n"].concat();
        let whole = if bytes.len() == FRAME_MAX {
            &whole[..6 + FRAME_MAX]
        } else {
            &whole
        };
        let (reply, _, next) = client.send_bytes(whole);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        let error = reply
            .strip_prefix("+PONG\r\n-ERR Protocol error: ")
            .unwrap_or_default();
        assert!(error.starts_with(expected), "{shown}: {reply}");
        assert_eq!(reply.lines().count(), 2, "{shown}: {reply}");
        assert_eq!(next, NextStep::Close, "{shown}");
        assert_eq!(client.integers("CL.THROTTLE a 0 1 60 0")[2], 1, "{shown}");
    }
}

#[test]
fn a_part_of_a_command_waits_for_the_rest() {
    let whole = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$1\r\n0\r\n$1\r\n1\r\n$2\r\n60\r\n";
    let mut client = Client::new(LIMITS);
    for length in 0..whole.len() {
        let part = [b"PING\r\n", &whole[..length]].concat();
        let answered = client.send_bytes(&part);
        assert_eq!(
            answered,
            ("+PONG\r\n".to_owned(), 6, NextStep::Read),
            "{length}"
        );
    }
    let (reply, consumed, _) = client.send_bytes(whole);
    assert_eq!(reply, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
    assert_eq!(consumed, whole.len());
}

#[test]
fn a_pipeline_is_answered_in_order_in_batches() {
    let mut client = Client::new(LIMITS);
    let pipeline = "CL.THROTTLE a 0 1 60\r\nNOPE\r\nCL.THROTTLE a 0 1 60\r\nPING\r\n";
    let (reply, consumed, next) = client.send_bytes(pipeline.as_bytes());
    let expected = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n\
                    -ERR unknown command 'NOPE', with args beginning with: \r\n\
                    *5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n+PONG\r\n";
    assert_eq!((reply.as_str(), next), (expected, NextStep::Read));
    assert_eq!(consumed, pipeline.len());

    let long = "PING\r\n".repeat(SHARE_MAX + 1);
    let (reply, consumed, next) = client.send_bytes(long.as_bytes());
    assert_eq!(reply, "+PONG\r\n".repeat(SHARE_MAX));
    assert_eq!((consumed, next), (6 * SHARE_MAX, NextStep::Answer));

    let (reply, _, next) = client.send_bytes(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(
        (reply.as_str(), next),
        ("+PONG\r\n+OK\r\n", NextStep::Close)
    );
}

/// Clients that do not read are not answered further: a batch ends after some bytes.
#[test]
fn the_replies_of_a_batch_are_bounded() {
    let mut client = Client::new(LIMITS);
    let echo = format!("ECHO {}\r\n", "x".repeat(8_000));
    for command in ["COMMAND\r\n", &echo] {
        let (one, ..) = client.send_bytes(command.as_bytes());
        let pipeline = command.repeat(SHARE_MAX);
        let (replies, consumed, next) = client.send_bytes(pipeline.as_bytes());
        assert_eq!(next, NextStep::Answer, "{command}");
        assert!(consumed < pipeline.len(), "{command}");
        assert!(replies.len() < REPLIES_MAX + one.len(), "{command}");
        let answered = consumed / command.len();
        assert_eq!(replies, one.repeat(answered), "{command}");
    }
}

/// Other ports are served by the same runtime. However many connections pipeline, another task runs
/// after about every 64 commands of all of them.
#[test]
fn pipelines_let_other_tasks_run() {
    const CONNECTIONS: usize = 50;
    const COMMANDS: usize = 1_024;
    let front = Arc::new(front(LIMITS, &ManualClock::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");

    for command in ["PING\r\n", "NOPE\r\n", "RESET\r\n"] {
        let pipeline = command.repeat(COMMANDS);
        let connections = (0..CONNECTIONS).map(|_| {
            let (front, pipeline) = (front.clone(), pipeline.clone());
            runtime.spawn(async move {
                let mut session = front.open_session();
                let mut rest = pipeline.as_bytes();
                while !rest.is_empty() {
                    let mut output = Vec::new();
                    let answered = front.answer(&mut session, rest, &mut output);
                    let (consumed, _) = answered.await;
                    rest = &rest[consumed..];
                }
            })
        });
        let connections: Vec<_> = connections.collect();
        let turns = runtime.block_on(async {
            let mut turns = 0;
            while !connections.iter().all(tokio::task::JoinHandle::is_finished) {
                turns += 1;
                tokio::task::yield_now().await;
            }
            turns
        });
        // A connection that follows on another may begin in the same round.
        let quanta = CONNECTIONS * COMMANDS / SHARE_MAX;
        assert!(turns > quanta / 2, "{command}: {turns} of {quanta}");
    }
}

/// The same for clients that wait for the replies to some commands before they send more.
#[test]
fn bursts_let_other_tasks_run() {
    const CONNECTIONS: usize = 50;
    const BURSTS: usize = 64;
    let front = Arc::new(front(LIMITS, &ManualClock::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");

    for commands in [8, 64] {
        let burst = "PING\r\n".repeat(commands);
        let connections = (0..CONNECTIONS).map(|_| {
            let (front, burst) = (front.clone(), burst.clone());
            runtime.spawn(async move {
                let mut session = front.open_session();
                for _ in 0..BURSTS {
                    let mut output = Vec::new();
                    let answered = front.answer(&mut session, burst.as_bytes(), &mut output);
                    assert_eq!(answered.await.0, burst.len());
                    // The client reads the replies.
                    tokio::task::yield_now().await;
                }
            })
        });
        let connections: Vec<_> = connections.collect();
        let turns = runtime.block_on(async {
            let mut turns = 0;
            while !connections.iter().all(tokio::task::JoinHandle::is_finished) {
                turns += 1;
                tokio::task::yield_now().await;
            }
            turns
        });
        let quanta = CONNECTIONS * BURSTS * commands / SHARE_MAX;
        assert!(turns > quanta / 2, "{commands}: {turns} of {quanta}");
    }
}

#[test]
fn a_batch_takes_one_slot_and_returns_it() {
    let mut client = Client::new(LIMITS);
    let load = client.front.load.clone();
    let slot = load.try_request();
    let overloaded = "-ERR overloaded: too many requests in flight; retry in a second\r\n";
    let (reply, ..) = client.send_bytes(b"PING\r\nCL.THROTTLE a 0 1 60\r\n");
    assert_eq!(reply, format!("+PONG\r\n{overloaded}"));

    drop(slot);
    assert_eq!(client.integers("CL.THROTTLE a 0 1 60")[0], 0);
    assert_eq!(load.in_flight(), 0);
}

#[test]
fn clients_can_introduce_themselves() {
    let mut client = Client::new(LIMITS);
    for (line, expected) in [
        ("PING", "+PONG\r\n"),
        ("ping hi", "$2\r\nhi\r\n"),
        ("ECHO hi", "$2\r\nhi\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETNAME shop", "+OK\r\n"),
        ("CLIENT GETNAME", "$4\r\nshop\r\n"),
        (
            "CLIENT SETNAME",
            "-ERR unknown subcommand or wrong number of arguments for 'SETNAME' of 'client'\r\n",
        ),
        ("CLIENT SETINFO LIB-NAME x", "+OK\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT ID", ":1\r\n"),
        ("COMMAND COUNT", ":13\r\n"),
        ("COMMAND DOCS", "*0\r\n"),
        ("COMMAND INFO nope", "*1\r\n$-1\r\n"),
        (
            "COMMAND INFO cl.throttle",
            "*1\r\n*6\r\n$11\r\ncl.throttle\r\n:-5\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n",
        ),
        ("RESET", "+RESET\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
    ] {
        assert_eq!(client.send(line), expected, "{line}");
    }
    assert!(client.send("INFO").contains("\r\nloading:0\r\n"));
    assert!(
        client
            .send("HELLO")
            .starts_with("*14\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n")
    );
    assert!(
        client
            .send("HELLO 3 SETNAME shop")
            .starts_with("%7\r\n$6\r\nserver\r\n")
    );
    assert_eq!(client.send("CLIENT GETNAME"), "$4\r\nshop\r\n");
    assert_eq!(
        client.send("CLIENT SETNAME \u{e4}"),
        "-ERR client names cannot contain spaces, newlines or special characters\r\n"
    );
    assert_eq!(client.send("COMMAND DOCS"), "%0\r\n");
    assert_eq!(client.send("COMMAND INFO nope"), "*1\r\n_\r\n");
    assert_eq!(client.integers("CL.THROTTLE a 0 1 60"), [0, 1, 0, -1, 60]);
}

#[test]
fn tokens_decide_who_may_ask() {
    let tokens = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery, allow: [check, inline] }
    - { name: next, token: correct-horse-staples }
";
    let mut client = Client::new(&format!("{tokens}{LIMITS}"));
    let no_auth = "-NOAUTH Authentication required.\r\n";
    for line in [
        "PING",
        "CL.THROTTLE a 0 1 60",
        "TOLLGATE.CHECK api a",
        "HELLO 3",
        "NOPE",
        "INFO",
    ] {
        assert_eq!(client.send(line), no_auth, "{line}");
    }
    let wrong = client.send("AUTH correct-horse-batter");
    assert!(wrong.starts_with("-WRONGPASS unknown token"), "{wrong}");
    assert_eq!(client.send("PING"), no_auth);
    let wrong = client.send("HELLO 3 AUTH default nope SETNAME x");
    assert!(wrong.starts_with("-WRONGPASS"), "{wrong}");

    assert_eq!(client.send("AUTH correct-horse-staples"), "+OK\r\n");
    assert_eq!(client.integers("TOLLGATE.CHECK api a")[0], 0);
    assert_eq!(
        client.send("CL.THROTTLE a 0 1 60"),
        "-NOPERM the token `next` does not allow `inline`; add it to `allow` of the token\r\n"
    );
    assert!(
        client
            .send("HELLO 2 AUTH shop correct-horse-battery")
            .starts_with("*14\r\n")
    );
    assert_eq!(client.integers("CL.THROTTLE a 0 1 60")[0], 0);

    assert_eq!(client.send("RESET"), "+RESET\r\n");
    assert_eq!(client.send("PING"), no_auth);

    // A token that was removed is refused on open connections.
    assert_eq!(client.send("AUTH correct-horse-battery"), "+OK\r\n");
    let other = tokens.replace("correct-horse-battery", "another-horse-battery");
    let config = Config::parse(&format!("{other}{LIMITS}"), "t.yaml", &|_| None);
    let config = config.expect("a valid configuration");
    client.front.gate.replace(config).expect("the same store");
    assert_eq!(client.send("CL.THROTTLE a 0 1 60"), no_auth);
}
