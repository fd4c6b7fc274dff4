//! The examples, run as they are and asked over real sockets: what is shown to work is what works.

#[path = "../../examples/axum_memory.rs"]
#[expect(dead_code, reason = "a test begins where the example's `main` ends")]
mod axum_memory;
#[path = "../../examples/axum_redis.rs"]
#[expect(dead_code, reason = "a test begins where the example's `main` ends")]
mod axum_redis;
#[path = "../../examples/reqwest_client.rs"]
#[expect(dead_code, reason = "a test begins where the example's `main` ends")]
mod reqwest_client;
#[path = "../../examples/tonic_server.rs"]
#[expect(dead_code, reason = "a test begins where the example's `main` ends")]
mod tonic_server;

mod calls;
mod client;
mod memory;
mod page;
mod shared;

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A server on a free port of its own, which ends with this value.
struct Running {
    addr: SocketAddr,
    runtime: Runtime,
}

impl Running {
    /// Starts a server on a port that is open already, so that nobody has to wait for it.
    fn start<S, E>(serve: impl FnOnce(TcpListener) -> S) -> Self
    where
        S: Future<Output = Result<(), E>> + Send + 'static,
        E: std::error::Error + Send + 'static,
    {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let addr = listener.local_addr().expect("an address");
        // What it makes on the way, such as a store with tasks of its own, belongs to the same
        // runtime.
        let context = runtime.enter();
        let serving = serve(listener);
        drop(context);
        runtime.spawn(serving);
        Self { addr, runtime }
    }
}
