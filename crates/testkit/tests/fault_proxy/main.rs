//! The fault proxy: every fault has its effect on existing and on new connections, and none after
//! it is cleared.
//!
//! - `bytes`: faults of requests and replies.
//! - `entry`: faults of new connections.
//! - `life`: the proxy without faults, and its end.

#![expect(clippy::unwrap_used, reason = "all code here is test code")]

mod bytes;
mod entry;
mod life;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use testkit::fault_proxy::FaultProxy;
use testkit::servers::{Client, Flavor, Reply, Server};

/// Reached only if something is broken.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a test waits for a reply that must not arrive.
const SILENCE: Duration = Duration::from_millis(100);
/// A delay that is noticeable on any machine.
const DELAY: Duration = Duration::from_millis(150);

fn start() -> (Server, FaultProxy) {
    let server = Server::start(Flavor::Redis);
    let proxy = FaultProxy::start(server.addr());
    (server, proxy)
}

fn connect(proxy: &FaultProxy) -> Client {
    let mut client = Client::connect(proxy.addr()).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

fn pong() -> Reply {
    Reply::Status("PONG".into())
}

/// Checks that a connection works.
fn ping(client: &mut Client) {
    assert_eq!(client.call(&["PING"]).unwrap(), pong());
}

/// A connection for reading raw bytes, after its first reply.
fn connect_raw(proxy: &FaultProxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream.read_exact(&mut [0; 7]).unwrap();
    stream
}

/// All bytes until the end of the connection, and the error that ended it, if any.
fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = stream
        .read_to_end(&mut bytes)
        .err()
        .map(|error| error.kind());
    (bytes, end)
}

/// Whether a call gets no reply while its connection stays open.
fn is_silent(client: &mut Client, words: &[&str]) -> bool {
    client.set_timeout(SILENCE).unwrap();
    let reply = client.call(words);
    client.set_timeout(LIMIT).unwrap();
    // The system's messages for a read timeout.
    reply.is_err_and(|error| {
        error.contains("temporarily unavailable") || error.contains("timed out")
    })
}

fn connect_error(addr: SocketAddr) -> Option<ErrorKind> {
    TcpStream::connect_timeout(&addr, SILENCE)
        .err()
        .map(|error| error.kind())
}
