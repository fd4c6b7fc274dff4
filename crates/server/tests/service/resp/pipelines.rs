//! Connections that pipeline commands without end do not starve the HTTP port.

use std::io::{self, Read as _, Write as _};
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testkit::servers::{Flavor, Server};
use testkit::wait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::harness::{PATIENCE, Tollgate};

use super::LIMITS;

/// Connections that pipeline.
const CONNECTIONS: usize = 100;
/// Checks over HTTP whose latency is measured, one after the other.
const CHECKS: usize = 101;
const CHECK: &str = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                     Content-Length: 29\r\n\r\n{\"attributes\":{\"tenant\":\"a\"}}\n";

/// Sends the commands again and again over one connection, and reads the replies.
async fn pipeline(resp: SocketAddr, commands: Arc<str>) {
    let mut stream = TcpStream::connect(resp).await.expect("it listens");
    let (mut receiving, mut sending) = stream.split();
    let send = async { while sending.write_all(commands.as_bytes()).await.is_ok() {} };
    let mut buffer = vec![0; 64 << 10];
    let receive = async { while let Ok(1..) = receiving.read(&mut buffer).await {} };
    tokio::join!(send, receive);
}

/// Runs pipelines on one thread until it is dropped.
struct Pipelines {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pipelines {
    fn start(resp: SocketAddr, commands: &str) -> Self {
        let commands: Arc<str> = commands.repeat(500).into();
        let (stop, stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_io().build();
        let runtime = runtime.expect("a runtime");
        let thread = thread::spawn(move || {
            for _ in 0..CONNECTIONS {
                runtime.spawn(pipeline(resp, Arc::clone(&commands)));
            }
            drop(runtime.block_on(stopped));
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The median latency of checks over one connection, and how many were degraded.
fn measure(http: SocketAddr) -> io::Result<(Duration, usize)> {
    let mut stream = net::TcpStream::connect(http)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut latencies = Vec::with_capacity(CHECKS);
    let mut degraded = 0;
    for _ in 0..CHECKS {
        let start = wait::now();
        stream.write_all(CHECK.as_bytes())?;
        let mut response = [0; 4096];
        let read = stream.read(&mut response)?;
        assert!(read > 0, "a response");
        latencies.push(start.elapsed());
        let text = String::from_utf8_lossy(&response[..read]).to_lowercase();
        degraded += usize::from(text.contains("x-ratelimit-fallback"));
    }
    latencies.sort_unstable();
    Ok((latencies[CHECKS / 2], degraded))
}

fn measure_beside_pipelines(store: &str) {
    let service = Tollgate::with_resp(&format!("{store}{LIMITS}"));
    let (alone, degraded) = measure(service.http).expect("responses");
    println!("without RESP: p50 {alone:?}, {degraded} degraded");

    for commands in [
        "COMMAND",
        "PING",
        "COMMAND INFO get set ping cl.throttle nope",
        "HELLO 2",
        "TOLLGATE.CHECK api a",
        "NOPE",
    ] {
        let pipelines = Pipelines::start(service.resp(), &format!("{commands}\r\n"));
        let (beside, degraded) = measure(service.http).expect("responses");
        drop(pipelines);
        let factor = beside.as_secs_f64() / alone.as_secs_f64();
        println!("{CONNECTIONS} x {commands}: p50 {beside:?}, x {factor:.1}, {degraded} degraded");
    }
}

/// Measures; how long a check takes depends on the machine, so only answers are asserted.
#[test]
#[ignore = "measures; run it with --nocapture on a quiet machine"]
fn http_checks_beside_pipelines() {
    measure_beside_pipelines("");
}

/// The same with a store that both ports share.
#[test]
#[ignore = "measures; run it with --nocapture on a quiet machine"]
fn http_checks_beside_pipelines_on_redis() {
    let redis = Server::start(Flavor::Redis);
    let store = format!(
        "store: {{ type: redis, endpoints: [\"{}\"] }}\n",
        redis.url()
    );
    measure_beside_pipelines(&store);
}
