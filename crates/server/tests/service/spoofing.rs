//! Attempts of a client to pass for another client, or its request for another one.

pub(crate) mod keys;

use std::net::SocketAddr;

use testkit::reverse_proxy::{self, Response};

use crate::raw;

/// The request that is limited: `POST /auth/login` of `shop.example`.
pub(crate) fn login(proxy: SocketAddr, headers: &[(&str, &str)]) -> Response {
    let headers = [&[("Host", "shop.example")], headers].concat();
    reverse_proxy::send(proxy, "POST", "/auth/login", &headers, b"")
}

/// Forged headers.
const LIES: &[&[(&str, &str)]] = &[
    &[("X-Forwarded-For", "198.51.100.1")],
    &[("X-Forwarded-For", "198.51.100.1, 198.51.100.2")],
    &[
        ("X-Forwarded-For", "198.51.100.1"),
        ("X-Forwarded-For", "198.51.100.2"),
    ],
    &[("X-Forwarded-For", "127.0.0.1, 198.51.100.3")],
    &[("X-Forwarded-For", "unknown")],
    &[("X-Forwarded-For", "")],
    &[("X-Forwarded-For", "2001:db8::1")],
    &[("x-forwarded-for", "198.51.100.4")],
    &[("X_Forwarded_For", "198.51.100.5")],
    &[("X-Real-IP", "198.51.100.6")],
    &[
        ("X-Real-Ip", "198.51.100.6"),
        ("X-Forwarded-For", "198.51.100.7"),
    ],
    &[("Forwarded", "for=198.51.100.8")],
    &[(
        "Forwarded",
        "for=\"[2001:db8::2]:4711\";proto=https;host=other.example",
    )],
    &[
        ("X-Client-IP", "198.51.100.9"),
        ("True-Client-IP", "198.51.100.9"),
        ("CF-Connecting-IP", "198.51.100.9"),
    ],
    &[("X-Original-URI", "/free")],
    &[
        ("X-Original-URI", "/free"),
        ("X-Original-URI", "/auth/login"),
    ],
    &[("X_Original_URI", "/free")],
    &[("X-Original-URI", "")],
    &[("X-Original-Method", "GET")],
    &[("X-Original-Host", "other.example")],
    &[("X-Forwarded-Uri", "/free")],
    &[("X-Forwarded-URI", "/free"), ("X-Forwarded-Uri", "/free")],
    &[("X-Forwarded-Uri", "/free"), ("X-Original-URI", "/free")],
    &[("X-Forwarded-Method", "GET")],
    &[("X-Forwarded-Host", "other.example")],
    &[
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "443"),
        ("X-Forwarded-Prefix", "/free"),
    ],
    &[("X-Original-URL", "/free"), ("X-Rewrite-URL", "/free")],
    &[("X-HTTP-Method-Override", "GET")],
    &[
        ("X-Envoy-Original-Path", "/free"),
        ("X-Envoy-External-Address", "198.51.100.10"),
    ],
    &[
        ("X-RateLimit-Remaining", "1000"),
        ("X-RateLimit-Status", "200"),
    ],
    &[(
        "Connection",
        "close, X-Forwarded-For, X-Original-URI, X-Forwarded-Uri",
    )],
    &[
        ("X-Forwarded-For", "198.51.100.11"),
        ("Connection", "X-Forwarded-For"),
    ],
    &[("Content-Type", "text/plain"), ("Expect", "")],
];

/// The forged headers that bypassed the limit.
pub(crate) fn bypasses(proxy: SocketAddr) -> Vec<String> {
    let tried = LIES.iter().map(|headers| (headers, login(proxy, headers)));
    let passed = tried.filter(|(_, answer)| answer.status != 429);
    passed
        .map(|(headers, answer)| format!("{headers:?}: {} {}", answer.status, answer.text()))
        .collect()
}

/// Spellings of `/auth/login` that an application may treat as the same path.
const SPELLINGS: &[&str] = &[
    "/auth/login/",
    "//auth/login",
    "//auth//login",
    "///auth/////login//",
    "/auth/%6cogin",
    "/auth/%6Cogin",
    "/%61%75%74%68/%6c%6f%67%69%6e",
    "/auth/login;x",
    "/auth/login;jsessionid=1",
    "/auth;a=b/login;c",
    "/auth/./login",
    "/./auth/login/.",
    "/auth/x/../login",
    "/x/../auth/login",
    "/auth/%2e/login",
    "/auth/x/%2e%2e/login",
    "/auth/x/.%2E/login",
    "/../auth/login",
    "/auth/login?x=1",
    "/auth/login??",
    "/auth/login?/../../free",
    "http://shop.example/auth/login",
    "http://shop.example//auth/%6cogin;x?a",
];

/// The spellings that bypassed the limit. A proxy may reject one by itself, which is fine too.
pub(crate) fn other_spellings(proxy: SocketAddr, more: &[&str]) -> Vec<String> {
    let mut passed = Vec::new();
    for path in SPELLINGS.iter().chain(more) {
        let host = if path.starts_with("http:") {
            "other.example"
        } else {
            "shop.example"
        };
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let answer = raw::exchange(proxy, request.as_bytes(), false);
        if !matches!(answer.status, 429 | 400) {
            passed.push(format!("{path}: {} {}", answer.status, answer.text()));
        }
    }
    passed
}
