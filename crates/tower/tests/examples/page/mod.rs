//! `docs/tower.md`: what it shows is code of these modules or of the examples, so that it compiles
//! and does what the page says.

mod costs;
mod keys;
mod responses;
mod start;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use tower::ServiceExt as _;

const PAGE: &str = include_str!("../../../../../docs/tower.md");
/// Where a block of the page may come from.
const SOURCES: [&str; 5] = [
    include_str!("responses.rs"),
    include_str!("keys.rs"),
    include_str!("costs.rs"),
    include_str!("start.rs"),
    include_str!("../../../examples/reqwest_client.rs"),
];

/// One request to an application, without a socket.
async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(response) = app.clone().oneshot(request).await;
    response
}

/// A request with these headers.
fn get(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let request = headers
        .iter()
        .fold(Request::get(path), |request, (name, value)| {
            request.header(*name, *value)
        });
    request.body(Body::empty()).expect("a request")
}

/// Code without its comments and without the shape that it was given.
fn essence(code: &str) -> String {
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    let code: String = lines
        .flat_map(str::chars)
        .filter(|letter| !letter.is_whitespace())
        .collect();
    code.replace(",)", ")")
}

#[test]
fn every_code_block_of_the_page_is_tested() {
    let blocks: Vec<&str> = PAGE
        .split("```rust\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 8, "the page has {} blocks", blocks.len());
    let sources = SOURCES.map(essence);
    for block in blocks {
        let essence = essence(block);
        assert!(
            sources.iter().any(|source| source.contains(&essence)),
            "nothing tests this block:\n{block}"
        );
    }
}
