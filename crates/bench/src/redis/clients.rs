//! The server for one run, with the scripts loaded and all keys created; the check that every subject
//! makes, which is the store's own script, keys and arguments; and the subjects that make decisions in
//! this process: Tollgate, a client that writes the bytes of a script call to a socket, and redis-rs.

use crate::harness::prelude::*;
use redis_rs::aio::MultiplexedConnection;
use redis_rs::{Connection, Script, cmd, pipe};
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate::{DemandBuf, Limit, Limiter, Rate};
use tollgate_redis::{RedisBuilder, testing};

/// Callers that share one store. Each request must pass all of the limits.
pub(super) async fn tollgate(
    target: &Target,
    limits: &'static [&'static str],
    keys: u32,
    callers: usize,
) -> Result<ConnectedCallers<LimiterCaller>> {
    let store = connect(RedisBuilder::standalone(target.server.url())).await?;
    let caller = LimiterCaller {
        limiter: Limiter::new(store.clone(), LIMITS.map(limit))?,
        limits,
        keys: (0..keys).map(name).collect(),
        is_allowed: true,
    };
    Ok(ConnectedCallers {
        callers: vec![caller; callers],
        calls: Some(Box::new(move || store.stats().script_calls)),
    })
}

/// The header of the script's reply.
const HEAD: &[u8] = b"$33\r\n";
const REPLY_LEN: usize = HEAD.len() + ALLOWED_REPLY_LEN + 2;

/// The lower bound of the cost of a call: one connection for each caller, a prepared command in
/// which only the key changes, and no parsing.
pub(super) struct BareCaller {
    stream: TcpStream,
    command: Vec<u8>,
    /// The position of the key's number in the command.
    digits: Range<usize>,
}

/// Opens one connection for each caller.
pub(super) async fn bare(target: &Target, callers: usize) -> Result<ConnectedCallers<BareCaller>> {
    let (command, digits) = command(&target.script);
    let mut connected = Vec::with_capacity(callers);
    for _ in 0..callers {
        let stream = TcpStream::connect(target.server.addr()).await?;
        stream.set_nodelay(true)?;
        connected.push(BareCaller {
            stream,
            command: command.clone(),
            digits: digits.clone(),
        });
    }
    Ok(ConnectedCallers {
        callers: connected,
        calls: None,
    })
}

impl Caller for BareCaller {
    async fn ask(&mut self, key: u32) -> Result<()> {
        write!(&mut self.command[self.digits.clone()], "{key:012}")?;
        self.stream.write_all(&self.command).await?;
        // An error is longer than a reply, so this never waits for bytes that do not arrive.
        let mut reply = [0; REPLY_LEN];
        self.stream.read_exact(&mut reply).await?;
        let answer = reply.strip_prefix(HEAD);
        let answer = answer.map(|rest| &rest[..ALLOWED_REPLY_LEN]);
        let is_allowed = answer.is_some_and(is_allowed_reply);
        let reply = String::from_utf8_lossy(&reply);
        ensure!(is_allowed, "unexpected reply: {reply:?}");
        Ok(())
    }
}

/// The command that checks a key, and the position of the key's number.
fn command(script: &str) -> (Vec<u8>, Range<usize>) {
    let [which, asked] = arguments();
    let mut command = redis_rs::cmd("EVALSHA");
    command.arg(script).arg(1).arg(key_to_draw());
    let command = command.arg(which).arg(asked).get_packed_command();
    let digits = digits(&command);
    (command, digits)
}

/// redis-rs with default settings: one multiplexed connection shared by all callers, one call for
/// each decision.
#[derive(Clone)]
pub(super) struct RedisRsCaller {
    connection: MultiplexedConnection,
    script: Arc<Script>,
    keys: Arc<[Vec<u8>]>,
    arguments: [Vec<u8>; 2],
}

/// Callers that share one connection.
pub(super) async fn redis_rs(
    target: &Target,
    keys: u32,
    callers: usize,
) -> Result<ConnectedCallers<RedisRsCaller>> {
    let client = redis_rs::Client::open(target.server.url())?;
    let caller = RedisRsCaller {
        connection: client.get_multiplexed_async_connection().await?,
        script: Arc::new(Script::new(testing::script())),
        keys: (0..keys).map(|number| key(LIMITS[0], number)).collect(),
        arguments: arguments(),
    };
    Ok(ConnectedCallers {
        callers: vec![caller; callers],
        calls: None,
    })
}

impl Caller for RedisRsCaller {
    async fn ask(&mut self, key: u32) -> Result<()> {
        let mut call = self.script.key(self.keys[key as usize].as_slice());
        for argument in &self.arguments {
            call.arg(argument.as_slice());
        }
        let answer: Vec<u8> = call.invoke_async(&mut self.connection).await?;
        let is_allowed = is_allowed_reply(&answer);
        ensure!(is_allowed, "the script denied the check");
        Ok(())
    }
}

/// The names of the limits. All subjects check the first one; one subject checks all of them.
pub(super) const LIMITS: [&str; 3] = ["api", "api-hourly", "api-daily"];
/// redis-benchmark replaces this text by a random number with the same number of digits.
const PLACEHOLDER: &str = "__rand_int__";

/// A token bucket that never denies and is never full again, so that every decision takes the same
/// path in the script. Limits differ only in their name.
fn limit(name: &str) -> Limit {
    Limit::token_bucket(name, 1_000_000_000, Rate::new(3, Duration::from_secs(7)))
}

/// A key as it is passed to the limiter, with the length that redis-benchmark's keys have.
fn name(number: u32) -> String {
    format!("user:{number:0width$}", width = PLACEHOLDER.len())
}

/// A key of a limit as it is stored on the server.
pub(super) fn key(limit: &str, number: u32) -> Vec<u8> {
    request(limit, &name(number)).0
}

/// A key with the placeholder that redis-benchmark replaces by a random number.
pub(super) fn key_to_draw() -> Vec<u8> {
    request(LIMITS[0], &format!("user:{PLACEHOLDER}")).0
}

/// The position of the placeholder in these bytes.
fn digits(bytes: &[u8]) -> Range<usize> {
    let mut places = bytes.windows(PLACEHOLDER.len());
    let at = places
        .position(|place| place == PLACEHOLDER.as_bytes())
        .expect("a key holds its name");
    at..at + PLACEHOLDER.len()
}

/// The script's arguments, the same for every limit and key: the kind of call, and the encoded demand.
fn arguments() -> [Vec<u8>; 2] {
    request(LIMITS[0], &name(0)).1
}

/// The script with its arguments inlined.
///
/// redis-benchmark passes its arguments as C strings, which end at the first zero byte; the encoded
/// demand contains some.
fn script_with_arguments() -> String {
    let byte = |byte: u8| format!("\\{byte:03}");
    let literal = |argument: Vec<u8>| argument.into_iter().map(byte).collect::<String>();
    let [which, demand] = arguments().map(literal);
    format!(
        "local ARGV = {{ '{which}', '{demand}' }}\n{}",
        testing::script()
    )
}

/// Whether a reply of the script allows the check: the time, then 1, then three numbers.
fn is_allowed_reply(answer: &[u8]) -> bool {
    answer.len() == ALLOWED_REPLY_LEN && answer[8] == 1
}

/// The length of the script's reply for one demand.
const ALLOWED_REPLY_LEN: usize = 8 + 1 + 3 * 8;

fn request(limit_name: &str, name: &str) -> (Vec<u8>, [Vec<u8>; 2]) {
    let rule = limit(limit_name).validate().expect("the limit is valid");
    let check = DemandBuf::new(&rule, name, 1).expect("the key is short");
    testing::script_arguments(&check.as_demand())
}

/// The number of calls in flight while keys are created.
const BATCH: usize = 500;

#[derive(Debug)]
pub(super) struct Target {
    pub(super) server: Server,
    /// The hash of the script.
    script: String,
    /// The hash of the script that has its arguments inlined.
    pub(super) script_with_arguments: String,
}

impl Target {
    pub(super) fn start() -> Result<Self> {
        let server = Server::start(Flavor::Redis);
        let mut connection = connection(&server)?;
        let mut load = |script: &str| {
            let load = cmd("SCRIPT").arg("LOAD").arg(script).to_owned();
            load.query::<String>(&mut connection)
        };
        Ok(Self {
            script: load(testing::script())?,
            script_with_arguments: load(&script_with_arguments())?,
            server,
        })
    }

    /// Checks each key of each limit once, so that every key exists before the first round; with
    /// both scripts, to verify that both work.
    pub(super) fn fill(&self, keys: u32) -> Result<()> {
        let [which, asked] = arguments();
        let mut connection = connection(&self.server)?;
        let numbers = |limit| (0..keys).map(move |number| key(limit, number));
        let keys: Vec<Vec<u8>> = LIMITS.into_iter().flat_map(numbers).collect();
        for batch in keys.chunks(BATCH) {
            let mut calls = pipe();
            for key in batch {
                let call = calls.cmd("EVALSHA").arg(&self.script).arg(1).arg(key);
                call.arg(&which).arg(&asked);
            }
            let replies: Vec<Vec<u8>> = calls.query(&mut connection)?;
            expect_allowed(&replies)?;
        }

        let mut call = cmd("EVALSHA");
        call.arg(&self.script_with_arguments);
        let reply = call.arg(1).arg(&keys[0]).query(&mut connection);
        expect_allowed(&[reply?])
    }
}

fn connection(server: &Server) -> Result<Connection> {
    Ok(redis_rs::Client::open(server.url())?.get_connection()?)
}

fn expect_allowed(replies: &[Vec<u8>]) -> Result<()> {
    for reply in replies {
        let is_allowed = is_allowed_reply(reply);
        ensure!(is_allowed, "the script denied a check: {reply:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_checks_the_key_with_its_number() {
        let (mut bytes, digits) = command("0123");
        write!(&mut bytes[digits], "{:012}", 42).unwrap();
        let [which, asked] = arguments();
        let key = key(LIMITS[0], 42);
        let words: [&[u8]; 6] = [b"EVALSHA", b"0123", b"1", &key, &which, &asked];
        let word =
            |text: &[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
        let expected = [b"*6\r\n".to_vec(), words.map(word).concat()].concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn drawn_keys_are_the_keys_of_the_store() {
        let mut drawn = key_to_draw();
        let digits = digits(&drawn);
        drawn[digits].copy_from_slice(b"000000000042");
        assert_eq!(drawn, key(LIMITS[0], 42));
        assert!(!drawn.contains(&0), "redis-benchmark would cut {drawn:?}");
    }

    #[test]
    fn the_arguments_are_written_byte_for_byte() {
        let script = script_with_arguments();
        let (first, rest) = script.split_once('\n').unwrap();
        assert_eq!(rest, testing::script());
        let literals = first
            .strip_prefix("local ARGV = { '")
            .unwrap()
            .strip_suffix("' }")
            .unwrap();
        let bytes = |literal: &str| {
            literal
                .split('\\')
                .skip(1)
                .map(|byte| byte.parse().unwrap())
                .collect()
        };
        let written: Vec<Vec<u8>> = literals.split("', '").map(bytes).collect();
        assert_eq!(written, arguments());
    }

    #[test]
    fn only_a_complete_allowed_reply_is_accepted() {
        let mut answer = [0; ALLOWED_REPLY_LEN];
        assert!(!is_allowed_reply(&answer));
        answer[8] = 1;
        assert!(is_allowed_reply(&answer));
        assert!(!is_allowed_reply(&answer[1..]));
    }
}
