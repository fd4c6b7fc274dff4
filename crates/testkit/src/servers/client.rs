//! A small blocking client, for arranging a server and for looking at what is in it.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::Reply;

/// How long a reply may take before it is an error: long enough for anything but a server that does
/// not answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One connection in version 2 of the protocol.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<Stream>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    /// Connects over TCP.
    pub fn connect(addr: SocketAddr) -> Result<Self, String> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
            stream.set_nodelay(true)?;
            Self::new(Stream::Tcp(stream))
        };
        connect().map_err(|error: io::Error| format!("{addr}: {error}"))
    }

    /// Connects to a socket file.
    pub(super) fn connect_unix(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path)
            .map(Stream::Unix)
            .and_then(Self::new)
    }

    fn new(stream: Stream) -> io::Result<Self> {
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        client.stream.get_mut().set_timeouts(TIMEOUT)?;
        Ok(client)
    }

    /// How long from now on a reply may take before it is an error.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), String> {
        self.stream
            .get_mut()
            .set_timeouts(timeout)
            .map_err(|error| error.to_string())
    }

    /// Sends a command and reads its reply. What the server refuses is a [`Reply::Error`]; an `Err`
    /// is the connection's.
    pub fn call(&mut self, words: &[&str]) -> Result<Reply, String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.call_bytes(&words)
    }

    /// [`call`](Self::call) with words that need not be text.
    pub fn call_bytes(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command without waiting for its reply.
    pub fn send(&mut self, words: &[&[u8]]) -> Result<(), String> {
        self.write(words).map_err(|error| error.to_string())
    }

    /// Reads the next reply.
    pub fn receive(&mut self) -> Result<Reply, String> {
        self.read().map_err(|error| error.to_string())
    }

    pub(super) fn write(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    pub(super) fn read(&mut self) -> io::Result<Reply> {
        Reply::read(&mut self.stream)
    }
}

impl Stream {
    fn set_timeouts(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self {
            Self::Tcp(stream) => stream
                .set_read_timeout(timeout)
                .and_then(|()| stream.set_write_timeout(timeout)),
            Self::Unix(stream) => stream
                .set_read_timeout(timeout)
                .and_then(|()| stream.set_write_timeout(timeout)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
