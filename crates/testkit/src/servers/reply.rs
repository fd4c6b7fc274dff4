//! A server's reply, and how it is parsed.

use std::io::{self, BufRead, ErrorKind};

/// The largest string or array that servers allow; more is not a valid reply.
const LENGTH_MAX: usize = 512 * 1024 * 1024;

/// A reply in version 2 of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple string such as `OK`.
    Status(String),
    /// An error, which begins with its code: `WRONGTYPE ...`.
    Error(String),
    /// An integer.
    Int(i64),
    /// A bulk string, or null. A null array is parsed as this as well.
    Bulk(Option<Vec<u8>>),
    /// An array.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a simple string, of an error or of a bulk string in UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Status(text) | Self::Error(text) => Some(text),
            Self::Bulk(Some(bytes)) => std::str::from_utf8(bytes).ok(),
            Self::Bulk(None) | Self::Int(_) | Self::Array(_) => None,
        }
    }

    /// The integer, also from a string, as in the reply to `GET`.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            other => other.as_str()?.parse().ok(),
        }
    }

    /// The bytes of a bulk string, unless it is null.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Bulk(Some(bytes)) = self {
            Some(bytes)
        } else {
            None
        }
    }

    /// The items of an array; empty for any other reply.
    pub fn items(&self) -> &[Reply] {
        if let Self::Array(items) = self {
            items
        } else {
            &[]
        }
    }

    /// The error message, if the reply is an error.
    pub fn error(&self) -> Option<&str> {
        if let Self::Error(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// Whether it is the status `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Status(text) if text == "OK")
    }

    /// The value of a name in a flat array of names and values, as Sentinel replies.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut pairs = self.items().chunks_exact(2);
        pairs
            .find(|pair| pair[0].as_str() == Some(name))
            .and_then(|pair| pair[1].as_str())
    }

    /// The value of a name in lines of `name:value`, as in the reply to `INFO`.
    pub(super) fn line(&self, name: &str) -> Option<&str> {
        let lines = self.as_str()?.lines();
        lines
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// Reads one reply.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let line = read_line(from)?;
        let (kind, rest) = line
            .split_at_checked(1)
            .ok_or_else(|| invalid("empty line"))?;

        match kind {
            "+" => Ok(Self::Status(rest.to_owned())),
            "-" => Ok(Self::Error(rest.to_owned())),
            ":" => rest.parse().map(Self::Int).map_err(|_| invalid(&line)),
            "$" => length(rest)?
                .map(|length| read_bytes(from, length))
                .transpose()
                .map(Self::Bulk),
            "*" => {
                let Some(length) = length(rest)? else {
                    return Ok(Self::Bulk(None));
                };
                (0..length)
                    .map(|_| Self::read(from))
                    .collect::<io::Result<_>>()
                    .map(Self::Array)
            }
            _ => Err(invalid(&line)),
        }
    }
}

/// The length of what follows; `None` for null.
fn length(text: &str) -> io::Result<Option<usize>> {
    if text == "-1" {
        return Ok(None);
    }
    let length = text.parse().ok().filter(|length| *length <= LENGTH_MAX);
    length.map(Some).ok_or_else(|| invalid(text))
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    let Some(text) = line.strip_suffix(b"\r\n") else {
        return Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "the connection was closed inside a reply",
        ));
    };
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn read_bytes(from: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn invalid(found: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("invalid reply: {found:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Reply> {
        Reply::read(&mut bytes)
    }

    #[test]
    fn every_kind_is_read() {
        assert_eq!(read(b"+OK\r\n").unwrap(), Reply::Status("OK".into()));
        assert_eq!(read(b"-ERR no\r\n").unwrap(), Reply::Error("ERR no".into()));
        assert_eq!(read(b":-7\r\n").unwrap(), Reply::Int(-7));
        assert_eq!(
            read(b"$3\r\na\r\n\r\n").unwrap(),
            Reply::Bulk(Some(b"a\r\n".to_vec()))
        );
        assert_eq!(read(b"$-1\r\n").unwrap(), Reply::Bulk(None));
        assert_eq!(read(b"*-1\r\n").unwrap(), Reply::Bulk(None));
        let nested = Reply::Array(vec![Reply::Int(1), Reply::Array(vec![])]);
        assert_eq!(read(b"*2\r\n:1\r\n*0\r\n").unwrap(), nested);
    }

    #[test]
    fn invalid_replies_are_errors() {
        let bad: [&[u8]; 7] = [
            b"",
            b"\r\n",
            b"+OK",
            b"!?\r\n",
            b":x\r\n",
            b"$999999999999\r\n",
            b"$5\r\nab",
        ];
        for bytes in bad {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn names_lead_to_values() {
        let flat = read(b"*4\r\n+a\r\n+1\r\n+b\r\n+2\r\n").unwrap();
        assert_eq!(flat.field("b"), Some("2"));
        assert_eq!(flat.field("1"), None);
        let lines = Reply::Bulk(Some(b"# Part\r\nrole:master\r\nlag:0\r\n".to_vec()));
        assert_eq!(lines.line("role"), Some("master"));
    }
}
