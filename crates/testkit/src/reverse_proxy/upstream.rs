//! What proxies stand in front of: a server that says 200 and repeats what it was asked.

use std::fmt::Write as _;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{content_length, read_exactly, read_headers, read_line};

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Of a whole request.
const BYTES_MAX: u64 = 1 << 20;

/// A server whose every answer is 200, with the request's first line and its headers, names in
/// lower case, as the body. It ends when it is dropped.
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    answered: AtomicU64,
    ending: AtomicBool,
}

impl Upstream {
    /// Starts it on a free port.
    ///
    /// # Panics
    ///
    /// When no port can be listened on.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the system has a free port");
        let addr = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::default());
        let listening = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || listen(&listener, &shared)
        });
        Self {
            addr,
            shared,
            listening: Some(listening),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many requests have come through to it.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        // A connection wakes the thread, which then sees that it is to end.
        let _awake = TcpStream::connect(self.addr);
        if let Some(listening) = self.listening.take() {
            let _ended = listening.join();
        }
    }
}

/// A thread for each connection, none of which lives longer than its one request may take.
fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.ending.load(Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        // A connection that breaks is the other side's to report.
        std::thread::spawn(move || stream.and_then(|stream| answer(&stream, &shared)));
    }
}

/// Connections that close after one request cannot be reused by a proxy just when they end.
fn answer(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    let mut reader = BufReader::new(stream.take(BYTES_MAX));
    let line = read_line(&mut reader)?;
    let headers = read_headers(&mut reader)?;
    read_exactly(&mut reader, content_length(&headers).unwrap_or(0))?;
    shared.answered.fetch_add(1, Ordering::SeqCst);
    let (mut writer, response) = (stream, echo(&line, &headers));
    writer.write_all(response.as_bytes())
}

fn echo(line: &str, headers: &[(String, String)]) -> String {
    let mut body = format!("{line}\n");
    for (name, value) in headers {
        let _infallible = writeln!(body, "{name}: {value}");
    }
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
