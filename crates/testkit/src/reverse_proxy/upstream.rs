//! An upstream server for proxies, which responds with status 200 and echoes the request.

use std::fmt::Write as _;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{content_length, read_exactly, read_headers, read_line};

const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The maximum size of a request.
const BYTES_MAX: u64 = 1 << 20;

/// A server that always responds with status 200. The body is the request line and the headers,
/// with names in lower case. It ends when it is dropped.
#[derive(Debug)]
pub struct Upstream {
    addr: SocketAddr,
    shared: Arc<UpstreamState>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct UpstreamState {
    answered: AtomicU64,
    ending: AtomicBool,
}

impl Upstream {
    /// Starts the server on a free port.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the system has a free port");
        let addr = listener.local_addr().expect("a listener has an address");

        let shared = Arc::new(UpstreamState::default());
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

    /// The address of the server.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The number of requests that have reached the server.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        // A connection wakes up the thread, which then ends.
        let _awake = TcpStream::connect(self.addr);
        if let Some(listening) = self.listening.take() {
            let _ended = listening.join();
        }
    }
}

/// One thread for each connection, which ends after its one request.
fn listen(listener: &TcpListener, shared: &Arc<UpstreamState>) {
    for stream in listener.incoming() {
        if shared.ending.load(Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        // A broken connection is reported by the other side.
        std::thread::spawn(move || stream.and_then(|stream| answer(&stream, &shared)));
    }
}

/// Responds to one request and closes the connection, so that a proxy cannot reuse a connection
/// that is about to close.
fn answer(stream: &TcpStream, shared: &UpstreamState) -> io::Result<()> {
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
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
