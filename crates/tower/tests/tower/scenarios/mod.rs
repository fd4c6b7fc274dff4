//! End-to-end scenarios with real sockets, a real load balancer and a real Redis.

mod credential_stuffing;
mod outage;
mod replicas;
mod spoofing;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use testkit::servers::Server;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tollgate::{Limit, Limiter};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{ClientResolver, ForwardedBy};

/// A runtime for the replicas of an application.
struct Site {
    runtime: Runtime,
}

impl Site {
    fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        Self {
            runtime: runtime
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime"),
        }
    }

    /// The limiter of one replica. Replicas share nothing but the Redis server.
    fn limiter(&self, server: &Server, limits: impl IntoIterator<Item = Limit>) -> Limiter {
        let _inside = self.runtime.enter();
        let store = RedisBuilder::standalone(server.url())
            .timeout(Duration::from_secs(5))
            .build();
        let store = store.expect("right settings");

        assert!(
            self.runtime.block_on(store.ready(Duration::from_secs(10))),
            "the server is there"
        );

        Limiter::new(store, limits).expect("valid limits")
    }

    /// Serves one replica on a free port.
    fn serve(&self, app: Router) -> SocketAddr {
        let listener = self
            .runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let address = listener.local_addr().expect("an address");
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        self.runtime
            .spawn(async move { axum::serve(listener, app).await });
        address
    }
}

/// Resolves clients behind a balancer at this address, which appends to `X-Forwarded-For`.
fn behind(balancer: &str) -> ClientResolver {
    let balancer = balancer.parse().expect("a network");
    ClientResolver::new(vec![balancer], 64, ForwardedBy::XForwardedFor).expect("right settings")
}

/// An nginx that distributes requests round-robin. It connects from its own address, so only it
/// knows the client addresses.
fn balancer(replicas: &[SocketAddr]) -> testkit::reverse_proxy::Proxy {
    let servers = replicas.iter().fold(String::new(), |servers, replica| {
        format!("{servers}server {replica}; ")
    });
    let config = format!(
        "upstream replicas {{ {servers} }}
         server {{
             listen 127.0.0.1:@port@;
             location / {{
                 proxy_pass http://replicas;
                 proxy_bind {BALANCER};
                 proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
             }}
         }}"
    );
    testkit::reverse_proxy::Proxy::nginx(config).start()
}

/// The address from which the balancer connects to the replicas.
const BALANCER: &str = "127.0.0.9";
