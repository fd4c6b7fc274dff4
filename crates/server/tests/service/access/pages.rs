//! Web pages of other sites cannot use the HTTP port through a browser on the same machine.

use testkit::browser::Browser;
use testkit::reverse_proxy::{self, Upstream};

use super::{ANN, LIMITS};
use crate::harness::Tollgate;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A batch that spends.
const BATCH: &str =
    r#"{"requests": [{"op": "check", "attributes": {"client_ip": "203.0.113.7"}}]}"#;

/// The status of a request with these headers.
fn status(service: &Tollgate, path: &str, headers: &[(&str, &str)]) -> u16 {
    reverse_proxy::send(service.http, "POST", path, headers, ANN.as_bytes()).status
}

/// What a key has left.
fn remaining(service: &Tollgate) -> String {
    let answer = service.post("/v1/peek", ANN);
    answer
        .header("x-ratelimit-remaining")
        .expect("a number")
        .to_owned()
}

#[test]
fn a_page_of_another_site_can_neither_spend_nor_refund() {
    let service = Tollgate::with_config(LIMITS);
    assert_eq!(status(&service, "/v1/check", &[]), 200);
    let before = remaining(&service);

    let origin = ("origin", "https://evil.example");
    let cross_site = ("sec-fetch-site", "cross-site");
    let json = ("content-type", "application/json");
    let rebound = [
        ("host", "evil.example:8080"),
        ("origin", "http://evil.example:8080"),
    ];
    let attempts: [&[(&str, &str)]; 8] = [
        &[origin],
        &[origin, json],
        &[origin, FORM],
        &[origin, ("content-type", "text/plain;charset=UTF-8")],
        &[("origin", "null"), FORM],
        &[cross_site],
        &rebound,
        &rebound[..1],
    ];
    for path in [
        "/v1/check",
        "/v1/refund",
        "/v1/peek",
        "/v1/release",
        "/v1/batch",
    ] {
        for attempt in attempts {
            assert_eq!(status(&service, path, attempt), 403, "{path} {attempt:?}");
        }
    }
    assert_eq!(remaining(&service), before);

    let refused = reverse_proxy::send(service.http, "POST", "/v1/check", &[origin], b"{}");
    assert_eq!(
        refused.header("content-type"),
        Some("application/problem+json")
    );
    assert!(
        refused.text().contains("server.allowed_origins"),
        "{}",
        refused.text()
    );
}

/// The same in a real Chromium: a form's content type needs no permission of the service.
#[test]
fn a_real_browser_cannot_spend_either() {
    let service = Tollgate::with_config(LIMITS);
    assert_eq!(status(&service, "/v1/check", &[]), 200);
    let before = remaining(&service);

    let (site, browser) = (Upstream::start(), Browser::start());
    let page = browser.open(&format!("http://{}/", site.addr()));
    let send = |path: &str, content_type: &str| {
        let url = format!("http://{}{path}", service.http);
        let body = match path {
            "/v1/batch" => BATCH,
            _ => ANN,
        };
        format!(
            "fetch('{url}', {{ method: 'POST', mode: 'no-cors', body: '{body}', \
             headers: {{ 'content-type': '{content_type}' }} }})"
        )
    };
    // The types that a page may send without asking, of which the second is the default of `fetch`.
    let types = [
        "application/x-www-form-urlencoded",
        "text/plain;charset=UTF-8",
    ];
    let paths = ["/v1/check", "/v1/refund", "/v1/batch"];
    for (path, content_type) in paths
        .iter()
        .flat_map(|path| types.map(|kind| (*path, kind)))
    {
        let request = send(path, content_type);
        page.eval(&format!(
            "window.sent = false, {request}.then(() => {{ window.sent = true }}), 0"
        ));
        page.until("window.sent", "the response");
        assert_eq!(remaining(&service), before, "{path} {content_type}");
    }
    // The same body is valid if a program sends it.
    let text = [("content-type", types[1])];
    assert_eq!(status(&service, "/v1/check", &text), 200);
    assert_ne!(remaining(&service), before);
}

#[test]
fn programs_and_allowed_pages_are_served() {
    let settings = "server: { allowed_origins: [\"https://app.example\"], \
                    allowed_hosts: [limits.internal] }";
    let service = Tollgate::with_config(&format!("{settings}\n{LIMITS}"));
    for headers in [
        // The default of `curl -d`.
        &[FORM][..],
        &[("host", "localhost:8080")],
        &[("host", "tollgate")],
        &[("host", "limits.internal")],
        &[
            ("origin", "https://app.example"),
            ("sec-fetch-site", "same-site"),
        ],
    ] {
        assert_eq!(status(&service, "/v1/check", headers), 200, "{headers:?}");
    }
    let other_port = [("origin", "https://app.example:8443")];
    assert_eq!(status(&service, "/v1/check", &other_port), 403);
}

/// A proxy passes on the headers of its clients, which are the browsers of all sites.
#[test]
fn forward_auth_decides_requests_of_browsers() {
    let service = Tollgate::with_config(LIMITS);
    let headers = [
        ("host", "shop.example"),
        ("origin", "https://elsewhere.example"),
        ("sec-fetch-site", "cross-site"),
        ("x-original-uri", "/"),
    ];
    assert_eq!(
        status(&service, "/v1/forward-auth?proxy=nginx", &headers),
        200
    );
}

/// Other addresses have names that the service does not know, such as those of a cluster.
#[test]
fn only_loopback_addresses_know_their_names() {
    let service = Tollgate::with(LIMITS, &["--http", "0.0.0.0:0"], &[]);
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], service.http.port()));
    let send = |headers: &[(&str, &str)]| {
        reverse_proxy::send(here, "POST", "/v1/check", headers, ANN.as_bytes()).status
    };
    let host = ("host", "tollgate.default.svc.cluster.local");
    assert_eq!(send(&[host]), 200);
    assert_eq!(
        send(&[
            host,
            ("origin", "http://tollgate.default.svc.cluster.local")
        ]),
        403
    );
}
