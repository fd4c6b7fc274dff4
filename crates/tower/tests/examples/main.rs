//! Runs the examples and sends requests to them over real sockets.

#[path = "../../examples/axum_memory.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod axum_memory;
#[path = "../../examples/axum_redis.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod axum_redis;
#[path = "../../examples/reqwest_client.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod reqwest_client;
#[path = "../../examples/tonic_server.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod tonic_server;

mod grpc;
mod memory;
mod outgoing;
mod page;
mod redis;

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A server on a free port. Dropping it stops the server.
struct TestServer {
    addr: SocketAddr,
    runtime: Runtime,
}

impl TestServer {
    /// Starts a server. Its port is already open, so clients can connect right away.
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
        // Tasks that `serve` spawns, such as those of a store, run on the same runtime.
        let context = runtime.enter();
        let serving = serve(listener);
        drop(context);
        runtime.spawn(serving);
        Self { addr, runtime }
    }
}
