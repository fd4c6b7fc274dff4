//! The lower bound of the cost of a call: one connection for each caller, a prepared command in
//! which only the key changes, and no parsing.

use std::io::{self, Write as _};
use std::ops::Range;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::check_script::{self, ALLOWED_REPLY_LEN};
use super::target::Target;
use crate::harness::callers::{Caller, ConnectedCallers};

/// The header of the script's reply.
const HEAD: &[u8] = b"$33\r\n";
const REPLY_LEN: usize = HEAD.len() + ALLOWED_REPLY_LEN + 2;

pub(super) struct BareCaller {
    stream: TcpStream,
    command: Vec<u8>,
    /// The position of the key's number in the command.
    digits: Range<usize>,
}

/// Opens one connection for each caller.
pub(super) async fn connect(
    target: &Target,
    callers: usize,
) -> io::Result<ConnectedCallers<BareCaller>> {
    let (command, digits) = command(&target.script);
    let mut connected = ConnectedCallers {
        callers: Vec::with_capacity(callers),
        calls: None,
    };
    for _ in 0..callers {
        let stream = TcpStream::connect(target.server.addr()).await?;
        stream.set_nodelay(true)?;
        connected.callers.push(BareCaller {
            stream,
            command: command.clone(),
            digits: digits.clone(),
        });
    }
    Ok(connected)
}

impl Caller for BareCaller {
    async fn ask(&mut self, key: u32) -> io::Result<()> {
        write!(&mut self.command[self.digits.clone()], "{key:012}")?;
        self.stream.write_all(&self.command).await?;
        // An error is longer than a reply, so this never waits for bytes that do not arrive.
        let mut reply = [0; REPLY_LEN];
        self.stream.read_exact(&mut reply).await?;
        match reply.strip_prefix(HEAD) {
            Some(rest) if check_script::is_allowed_reply(&rest[..ALLOWED_REPLY_LEN]) => Ok(()),
            _ => Err(io::Error::other(format!(
                "unexpected reply: {:?}",
                String::from_utf8_lossy(&reply)
            ))),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_checks_the_key_with_its_number() {
        let (mut bytes, digits) = command("0123");
        write!(&mut bytes[digits], "{:012}", 42).unwrap();
        let [which, asked] = check_script::arguments();
        let key = check_script::key(42);
        let words: [&[u8]; 6] = [b"EVALSHA", b"0123", b"1", &key, &which, &asked];
        let word =
            |text: &[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
        let expected = [b"*6\r\n".to_vec(), words.map(word).concat()].concat();
        assert_eq!(bytes, expected);
    }
}
