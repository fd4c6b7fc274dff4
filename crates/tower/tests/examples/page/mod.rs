//! `docs/tower.md`: each of its Rust blocks is code of these modules, so that it compiles and does
//! what the page says.
//!
//! Each module begins with the block, `use` lines included. Its tests follow in `mod tests`.

mod actual_cost;
mod login;
mod multiple_limits;
mod outgoing;
mod proxies;
mod responses;
#[expect(dead_code, reason = "the tests call `app` instead of `main`")]
mod start;
mod streaming;
mod tiers;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use tollgate_tower::Peer;
use tower::ServiceExt as _;

const PAGE: &str = include_str!("../../../../../docs/tower.md");
/// The modules that contain the blocks of the page.
const SOURCES: [&str; 11] = [
    include_str!("actual_cost.rs"),
    include_str!("login.rs"),
    include_str!("multiple_limits.rs"),
    include_str!("outgoing.rs"),
    include_str!("proxies.rs"),
    include_str!("responses.rs"),
    include_str!("start.rs"),
    include_str!("start/tests.rs"),
    include_str!("streaming.rs"),
    include_str!("tiers.rs"),
    include_str!("tiers/lookup.rs"),
];

/// Sends a request to an application without a socket.
async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(response) = app.clone().oneshot(request).await;
    response
}

/// A GET request from 203.0.113.7 with these headers.
fn get(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let request = headers
        .iter()
        .fold(Request::get(path), |request, (name, value)| {
            request.header(*name, *value)
        });
    with_peer(request.body(Body::empty()).expect("a request"))
}

/// The request with 203.0.113.7 as its peer.
fn with_peer(mut request: Request<Body>) -> Request<Body> {
    let peer = SocketAddr::from(([203, 0, 113, 7], 4711));
    request.extensions_mut().insert(Peer(peer));
    request
}

/// Code without comments, white space and trailing commas.
fn normalise(code: &str) -> String {
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    let code: String = lines
        .flat_map(str::chars)
        .filter(|letter| !letter.is_whitespace())
        .collect();
    code.replace(",)", ")").replace(",}", "}")
}

#[test]
fn every_code_block_of_the_page_is_tested() {
    let blocks: Vec<&str> = PAGE
        .split("```rust\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), SOURCES.len(), "one block per module");

    let sources = SOURCES.map(normalise);
    for block in blocks {
        assert!(
            block.contains("use "),
            "a block shows its imports:\n{block}"
        );
        let code = normalise(block);
        assert!(
            sources.iter().any(|source| source.contains(&code)),
            "no module contains this block:\n{block}"
        );
    }
}
