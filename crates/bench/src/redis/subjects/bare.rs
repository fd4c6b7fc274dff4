//! The least that asking can cost: a connection for each caller, a command that is ready but for
//! its key, no parsing.

use std::io::{self, Write as _};
use std::ops::Range;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::entrant::{Caller, Connected};
use super::super::question::{self, ANSWER_LEN};
use super::super::target::Target;

/// What stands before the script's answer.
const HEAD: &[u8] = b"$33\r\n";
const REPLY_LEN: usize = HEAD.len() + ANSWER_LEN + 2;

pub(super) struct Asking {
    stream: TcpStream,
    command: Vec<u8>,
    /// Where in the command the number of the key is.
    digits: Range<usize>,
}

/// Callers with a connection each.
pub(super) async fn connect(target: &Target, callers: usize) -> io::Result<Connected<Asking>> {
    let (command, digits) = command(&target.script);
    let mut connected = Connected {
        callers: Vec::with_capacity(callers),
        calls: None,
    };
    for _ in 0..callers {
        let stream = TcpStream::connect(target.server.addr()).await?;
        stream.set_nodelay(true)?;
        connected.callers.push(Asking {
            stream,
            command: command.clone(),
            digits: digits.clone(),
        });
    }
    Ok(connected)
}

impl Caller for Asking {
    async fn ask(&mut self, key: u32) -> io::Result<()> {
        write!(&mut self.command[self.digits.clone()], "{key:012}")?;
        self.stream.write_all(&self.command).await?;
        // An error is longer than an answer, so this does not wait for what does not come.
        let mut reply = [0; REPLY_LEN];
        self.stream.read_exact(&mut reply).await?;
        match reply.strip_prefix(HEAD) {
            Some(rest) if question::is_yes(&rest[..ANSWER_LEN]) => Ok(()),
            _ => Err(io::Error::other(format!(
                "the server said {:?}",
                String::from_utf8_lossy(&reply)
            ))),
        }
    }
}

/// The command that asks about a key, and where its number is.
fn command(script: &str) -> (Vec<u8>, Range<usize>) {
    let (key, [which, asked]) = (question::key_to_draw(), question::arguments());
    let mut command = encoded(&[b"EVALSHA", script.as_bytes(), b"1"], 6);
    command.extend(word(&key));
    let begin = command.len() - key.len() - 2;
    command.extend(word(&which));
    command.extend(word(&asked));
    let digits = question::digits_of_key();
    (command, begin + digits.start..begin + digits.end)
}

/// The first words of a command that has `count`.
fn encoded(words: &[&[u8]], count: usize) -> Vec<u8> {
    let mut command = format!("*{count}\r\n").into_bytes();
    words.iter().for_each(|text| command.extend(word(text)));
    command
}

fn word(text: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_asks_about_the_key_of_its_number() {
        let (mut bytes, digits) = command("0123");
        write!(&mut bytes[digits], "{:012}", 42).unwrap();
        let [which, asked] = question::arguments();
        let words: [&[u8]; 6] = [
            b"EVALSHA",
            b"0123",
            b"1",
            &question::key(42),
            &which,
            &asked,
        ];
        assert_eq!(bytes, encoded(&words, 6));
        assert_eq!(
            encoded(&[b"GET", b"a"], 2),
            b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
        );
    }
}
