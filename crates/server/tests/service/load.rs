//! Clients that keep their connection open and notice how it ends.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::harness::PATIENCE;

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The server closes the connection after it.
    pub(crate) is_last: bool,
    pub(crate) body: String,
}

/// Ends the load when dropped, also when the test fails.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Connection {
    pub(crate) fn open(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends raw bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a check and waits for the complete response.
    pub(crate) fn check(&mut self, body: &str) -> io::Result<Answer> {
        let length = body.len();
        let head =
            format!("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}");
        self.send(head.as_bytes())?;
        self.answer()
    }

    /// Sends the head of a check, and waits until the server asks for its body: the request is then
    /// being handled.
    pub(crate) fn begin_check(&mut self, length: usize) -> io::Result<()> {
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        self.send(head.as_bytes())?;
        match self.answer()?.status {
            100 => Ok(()),
            status => Err(io::Error::other(format!("expected 100, found {status}"))),
        }
    }

    /// Waits for the next response.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let (mut status, mut length, mut is_last) = (None, 0, false);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ));
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            } else if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest
                    .split(' ')
                    .next()
                    .and_then(|status| status.parse().ok());
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().map_err(io::Error::other)?;
            } else if line == "connection: close" {
                is_last = true;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let status = status.ok_or_else(|| io::Error::other("no status line"))?;
        Ok(Answer {
            status,
            is_last,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// Waits until the server closes the connection. Returns what it sent before that.
    pub(crate) fn until_closed(&mut self) -> io::Result<String> {
        let mut said = Vec::new();
        self.stream.read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}
