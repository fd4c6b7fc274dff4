//! The fault proxy: every fault does what it says, to connections there are and to new ones, and is
//! over when cleared.
//!
//! - `bytes`: what happens to requests and replies.
//! - `entry`: what happens to new connections.
//! - `life`: what the proxy does without faults, and how it ends.

#![expect(
    clippy::unwrap_used,
    reason = "all of this is tests, also what is not marked as one"
)]

mod bytes;
mod entry;
mod life;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use testkit::fault_proxy::FaultProxy;
use testkit::servers::{Client, Flavor, Reply, Server};

/// Only something broken takes so long.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a test waits for a reply that is not to come.
const SILENCE: Duration = Duration::from_millis(100);
/// A delay that is told from none on any machine.
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

/// Sees that a connection works.
fn ping(client: &mut Client) {
    assert_eq!(client.call(&["PING"]).unwrap(), pong());
}

/// A connection whose bytes are looked at one by one, after its first reply.
fn connect_raw(proxy: &FaultProxy) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream.read_exact(&mut [0; 7]).unwrap();
    stream
}

/// What arrives until the end, and how it ends.
fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = stream
        .read_to_end(&mut bytes)
        .err()
        .map(|error| error.kind());
    (bytes, end)
}

/// Whether a call stays without an answer while its connection stays open.
fn is_silent(client: &mut Client, words: &[&str]) -> bool {
    client.set_timeout(SILENCE).unwrap();
    let reply = client.call(words);
    client.set_timeout(LIMIT).unwrap();
    // What the system says when a read took too long.
    reply.is_err_and(|error| {
        error.contains("temporarily unavailable") || error.contains("timed out")
    })
}

fn connect_error(addr: SocketAddr) -> Option<ErrorKind> {
    TcpStream::connect_timeout(&addr, SILENCE)
        .err()
        .map(|error| error.kind())
}
