//! A client that has the dashboard open: it reads the event stream as a browser does, until it is
//! dropped.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, ensure};

/// A dashboard client on a separate thread.
#[derive(Debug)]
pub(super) struct Viewer {
    stream: TcpStream,
    reading: Option<JoinHandle<()>>,
}

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
        let mut rest = stream.try_clone()?;
        let reading = std::thread::spawn(move || {
            let mut room = [0; 16 * 1024];
            while rest.read(&mut room).is_ok_and(|read| read > 0) {}
        });
        Ok(Self {
            stream,
            reading: Some(reading),
        })
    }

    /// Whether the event stream is still open.
    pub(super) fn is_there(&self) -> bool {
        self.reading
            .as_ref()
            .is_some_and(|reading| !reading.is_finished())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ended = self.stream.shutdown(Shutdown::Both);
        if let Some(reading) = self.reading.take() {
            let _ended = reading.join();
        }
    }
}
