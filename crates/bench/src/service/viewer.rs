//! Someone who has the dashboard open: reads its events as a browser does, for as long as this
//! lives.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// A viewer on a thread of its own.
#[derive(Debug)]
pub(super) struct Viewer {
    stream: TcpStream,
    reading: Option<JoinHandle<()>>,
}

impl Viewer {
    /// Opens the dashboard's stream and waits for its first bytes.
    pub(super) fn open(admin: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(
            stream,
            "GET /admin/events HTTP/1.1\r\nHost: {admin}\r\n\r\n"
        )?;
        let mut first = [0; 12];
        stream.read_exact(&mut first)?;
        if !first.ends_with(b" 200") {
            let said = String::from_utf8_lossy(&first).into_owned();
            return Err(io::Error::other(format!("the dashboard answered {said}")));
        }
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

    /// False when it was sent away.
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
