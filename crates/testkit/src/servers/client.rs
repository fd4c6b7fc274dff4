//! A small blocking client for setting up servers and inspecting their data.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::Reply;

/// How long a reply may take: long enough for anything but a server that does not respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One connection with version 2 of the protocol.
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

    /// Connects to a Unix socket.
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

    /// Sets the timeout for replies.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), String> {
        self.stream
            .get_mut()
            .set_timeouts(timeout)
            .map_err(|error| error.to_string())
    }

    /// Sends a command and reads its reply. An error of the server is a [`Reply::Error`]; an `Err`
    /// is an error of the connection.
    pub fn call(&mut self, words: &[&str]) -> Result<Reply, String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.call_bytes(&words)
    }

    /// [`call`](Self::call) with arguments that need not be text.
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
