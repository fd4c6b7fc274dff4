//! A client that has the dashboard open: it reads the event stream as a browser does, until the
//! server closes it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use anyhow::{Result, ensure};

/// A dashboard client on a separate thread, which ends with the server.
#[derive(Debug)]
pub(super) struct Viewer(JoinHandle<()>);

impl Viewer {
    /// Opens the event stream and waits for its first bytes.
    pub(super) fn open(admin: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(
            stream,
            "GET /admin/events HTTP/1.1\r\nHost: {admin}\r\n\r\n"
        )?;
        let mut first = [0; 12];
        stream.read_exact(&mut first)?;
        ensure!(
            first.ends_with(b" 200"),
            "unexpected response of the dashboard: {}",
            String::from_utf8_lossy(&first)
        );

        let mut room = [0; 16 * 1024];
        Ok(Self(spawn(move || {
            while stream.read(&mut room).is_ok_and(|read| read > 0) {}
        })))
    }

    /// Whether the event stream is still open.
    pub(super) fn is_open(&self) -> bool {
        !self.0.is_finished()
    }
}
