//! The layer in real servers over sockets: axum with `ConnectInfo`, and plain hyper.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use testkit::reverse_proxy;
use tokio::net::TcpListener;
use tollgate_tower::{Peer, RateLimitLayer, by};
use tower::{Layer, ServiceExt as _, service_fn};

use crate::support::{hello, limiter, per_minute, status};

/// A server on a free port, on a runtime that ends with the test.
fn serve<F: Future<Output = ()> + Send + 'static>(
    server: impl FnOnce(TcpListener) -> F,
) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime
        .block_on(TcpListener::bind("127.0.0.1:0"))
        .expect("a free port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(server(listener));
    (runtime, address)
}

fn statuses(address: SocketAddr) -> [u16; 3] {
    [(); 3]
        .map(|()| reverse_proxy::get(address, "/", &[("x-forwarded-for", "198.51.100.1")]).status)
}

#[test]
fn an_axum_application_is_limited() {
    let limits = limiter([per_minute("api", 2)]);
    let app = Router::new().route("/", get(|| async { "hello" }));
    let app = app.layer(RateLimitLayer::new(&limits, "api", by::client_address()));
    let (_runtime, address) = serve(|listener| async move {
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app).await.expect("a server");
    });
    assert_eq!(statuses(address), [200, 200, 429]);
}

#[test]
fn mock_connect_info_is_the_peer_of_requests_without_connect_info() {
    let limits = limiter([per_minute("api", 1)]);
    let mock = SocketAddr::from(([203, 0, 113, 7], 4711));
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(RateLimitLayer::new(&limits, "api", by::client_address()))
        .layer(MockConnectInfo(mock));
    let request = || http::Request::new(Body::empty());
    assert_eq!(status(&app, request()), 200);
    assert_eq!(status(&app, request()), 429);

    // The real address takes precedence.
    let mut other = request();
    let peer = SocketAddr::from(([203, 0, 113, 8], 4711));
    other.extensions_mut().insert(ConnectInfo(peer));
    assert_eq!(status(&app, other), 200);
}

#[test]
fn a_hyper_server_is_limited() {
    let limits = limiter([per_minute("api", 2)]);
    let layer = RateLimitLayer::new(&limits, "api", by::client_address());
    let (_runtime, address) = serve(|listener| async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let limited = layer.layer(service_fn(hello));
            let service =
                limited.map_request(move |mut request: http::Request<hyper::body::Incoming>| {
                    request.extensions_mut().insert(Peer(peer));
                    request
                });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            tokio::spawn(connection);
        }
    });

    assert_eq!(statuses(address), [200, 200, 429]);
}
