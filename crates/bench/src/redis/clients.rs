//! The subjects that make decisions in this process: Tollgate, a client that writes the bytes of a
//! script call to a socket, and redis-rs.

use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, ensure};
use redis_rs::Script;
use redis_rs::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate::Limiter;
use tollgate_redis::RedisBuilder;

use super::check_script::{self, ALLOWED_REPLY_LEN, LIMITS};
use super::target::Target;
use crate::harness::{Caller, ConnectedCallers, LimiterCaller, connect};

/// Callers that share one store. Each request must pass all of the limits.
pub(super) async fn tollgate(
    target: &Target,
    limits: &'static [&'static str],
    keys: u32,
    callers: usize,
) -> Result<ConnectedCallers<LimiterCaller>> {
    let store = connect(RedisBuilder::standalone(target.server.url())).await?;
    let caller = LimiterCaller {
        limiter: Limiter::new(store.clone(), LIMITS.map(check_script::limit))?,
        limits,
        keys: (0..keys).map(check_script::name).collect(),
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
        ensure!(
            answer.is_some_and(check_script::is_allowed_reply),
            "unexpected reply: {:?}",
            String::from_utf8_lossy(&reply)
        );
        Ok(())
    }
}

/// The command that checks a key, and the position of the key's number.
fn command(script: &str) -> (Vec<u8>, Range<usize>) {
    let [which, asked] = check_script::arguments();
    let mut command = redis_rs::cmd("EVALSHA");
    command.arg(script).arg(1).arg(check_script::key_to_draw());
    let command = command.arg(which).arg(asked).get_packed_command();
    let digits = check_script::digits(&command);
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
        script: Arc::new(Script::new(check_script::script())),
        keys: (0..keys)
            .map(|number| check_script::key(LIMITS[0], number))
            .collect(),
        arguments: check_script::arguments(),
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
        let is_allowed = check_script::is_allowed_reply(&answer);
        ensure!(is_allowed, "the script denied the check");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_checks_the_key_with_its_number() {
        let (mut bytes, digits) = command("0123");
        write!(&mut bytes[digits], "{:012}", 42).unwrap();
        let [which, asked] = check_script::arguments();
        let key = check_script::key(LIMITS[0], 42);
        let words: [&[u8]; 6] = [b"EVALSHA", b"0123", b"1", &key, &which, &asked];
        let word =
            |text: &[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
        let expected = [b"*6\r\n".to_vec(), words.map(word).concat()].concat();
        assert_eq!(bytes, expected);
    }
}
