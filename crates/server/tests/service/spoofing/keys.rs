//! Attempts of a client to be counted under another key than the one that the application uses.

use std::net::SocketAddr;

use crate::raw;

/// One unit for each session, API key, token and search.
pub(crate) const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: session, match: { path: /session }, key: ["cookie:session"], optional: true, algorithm: fixed_window, limit: 1, window: 1h }
  - { name: api, match: { path: /api }, key: ["header:x-api-key"], optional: true, algorithm: fixed_window, limit: 1, window: 1h }
  - { name: bearer, match: { path: /bearer }, key: ["header:authorization"], optional: true, algorithm: fixed_window, limit: 1, window: 1h }
  - { name: search, match: { path: /search }, key: ["query:key"], optional: true, algorithm: fixed_window, limit: 1, window: 1h }
  - { name: admin, match: { path: /admin, "header:x-role": admin, "query:mode": write }, key: [], algorithm: fixed_window, limit: 1, window: 1h }
"#;

/// Paths with header lines. In each list, an application may treat all requests as the same.
const SAME: [&[(&str, &[u8])]; 7] = [
    &[
        ("/session", b"Cookie: session=abc"),
        ("/session", b"Cookie: session =abc"),
        ("/session", b"Cookie: session=\"abc\""),
        ("/session", b"Cookie: session=\"abc."),
        ("/session", b"Cookie: session=%61bc"),
        ("/session", b"Cookie: session=\"\\141bc\""),
        ("/session", b"Cookie: session=abc; session=1"),
        ("/session", b"Cookie: session=2; session=abc"),
        ("/session", b"Cookie: session=; session=abc"),
        ("/session", b"Cookie: a=1;session=abc;b=2"),
        ("/session", b"Cookie: theme=\xff; session=abc"),
        ("/session", b"Cookie: theme=\"; session=abc; x=\""),
        ("/session", b"Cookie: $Version=1; session=abc; $Path=/"),
        ("/session", b"Cookie: session=abc\r\nCookie: session=3"),
        ("/session", b"Cookie: session=4\r\nCookie: session=abc"),
        ("/session", b"cookie:session\t=\tabc\t"),
        ("/session", b"Cookie: a=b session=abc"),
        ("/session", b"Cookie: a=b,session=abc"),
        ("/session", b"Cookie: session=abc x=5"),
        ("/session", b"Cookie: session=j:%22\\u0061bc%22"),
    ],
    &[
        ("/api", b"X-Api-Key: k-1"),
        ("/api", b"x-api-key:k-1"),
        ("/api", b"X-Api-Key: \t k-1 \t "),
        ("/api", b"X-Api-Key: k-1\r\nX-Api-Key: 1"),
        ("/api", b"X-Api-Key: 2\r\nX-Api-Key: k-1"),
        ("/api", b"X-Api-Key: 3\r\nX-Other: 1\r\nx-api-key: k-1"),
        ("/api", b"X-Api-Key:\r\nX-Api-Key: k-1"),
    ],
    &[
        ("/bearer", b"Authorization: Bearer T"),
        ("/bearer", b"Authorization: bearer T"),
        ("/bearer", b"Authorization: Bearer  T"),
        ("/bearer", b"Authorization: Bearer\tT"),
        ("/bearer", b"Authorization: Bearer T \t"),
        ("/bearer", b"Authorization: Token T"),
        ("/bearer", b"Authorization: T"),
        ("/bearer", b"Authorization: Bearer T 1"),
        ("/bearer", b"Authorization: Bearer 2 T"),
        (
            "/bearer",
            b"Authorization: Bearer T\r\nAuthorization: Bearer 3",
        ),
        ("/bearer", b"Authorization: Token token=\"T\", nonce=\"4\""),
    ],
    &[
        ("/bearer", b"Authorization: Basic YW5uOnB3"),
        ("/bearer", b"Authorization: Basic YW5u!OnB3"),
        ("/bearer", b"Authorization: basic YW5uOnB3=="),
        ("/bearer", b"Authorization: Basic YW5uOnB3=1"),
        ("/bearer", b"Authorization: Basic \"YW5u OnB3\""),
    ],
    &[
        ("/bearer", b"Authorization: Bearer k=V"),
        ("/bearer", b"Authorization: Bearer k=V 1"),
    ],
    &[
        ("/search?key=a+b", b"Accept: */*"),
        ("/search?key=a%20b", b"Accept: */*"),
        ("/search?key=%61+b", b"Accept: */*"),
        ("/search?%6Bey=a+b", b"Accept: */*"),
        ("/search?key=a+b&key=1", b"Accept: */*"),
        ("/search?key=2&key=a+b", b"Accept: */*"),
        ("/search?key=3;key=a+b", b"Accept: */*"),
        ("/search?key[]=a+b", b"Accept: */*"),
        ("/search?key%5B0%5D=a+b", b"Accept: */*"),
        ("/search?key=&key=a+b", b"Accept: */*"),
        ("/search?x=1#&key=a+b", b"Accept: */*"),
        ("/search??key=a+b", b"Accept: */*"),
    ],
    &[
        ("/admin?mode=write", b"X-Role: admin"),
        ("/admin?mode=read&mode=write", b"X-Role: admin"),
        (
            "/admin?mode=write&mode=read",
            b"X-Role: user\r\nX-Role: admin",
        ),
        ("/admin?mode=write", b"X-Role: admin\r\nX-Role: user"),
    ],
];

/// The requests that were counted under another key. `request` gives the bytes of a request.
pub(crate) fn fresh_counters(
    proxy: SocketAddr,
    request: impl Fn(&str, &[u8]) -> Vec<u8>,
) -> Vec<String> {
    let mut fresh = Vec::new();
    for same in SAME {
        for (index, (path, lines)) in same.iter().enumerate() {
            let answer = raw::exchange(proxy, &request(path, lines), false);
            let expected = if index == 0 { 200 } else { 429 };
            // A proxy may reject a request by itself.
            if !matches!(answer.status, 400) && answer.status != expected {
                let lines = lines.escape_ascii();
                fresh.push(format!(
                    "{path} {lines}: {} {}",
                    answer.status,
                    answer.text()
                ));
            }
        }
    }
    fresh
}

/// A request with these header lines.
pub(crate) fn get(path: &str, lines: &[u8]) -> Vec<u8> {
    let start = format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n");
    [start.as_bytes(), lines, b"\r\n\r\n"].concat()
}
