//! Whole stacks: a proxy with its file from `deploy/`, the real service, and an application in a
//! common framework, audited with `tollgate audit-paths`.
//!
//! The applications count the requests that reach their login. A limit that counts every spelling
//! of a request lets exactly as many through as it allows.

mod proxies;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testkit::backends::Backend;
use testkit::reverse_proxy;

use self::proxies::ProxyFile;
use crate::harness::Tollgate;

/// One limit for each method, so that one service is enough for all audits. Descriptors of Envoy
/// with an API key have no method.
const LIMITS: &str = r#"
version: 1
client_ip: { trusted_proxies: ["127.0.0.0/8"] }
limits:
  - { name: login, match: { method: POST, path: /auth/login }, key: [client_ip], algorithm: fixed_window, limit: 3, window: 1d }
  - { name: session, match: { method: PUT, path: /auth/login }, key: ["cookie:session"], optional: true, algorithm: fixed_window, limit: 3, window: 1d }
  - { name: api-key, match: { method: PATCH, path: /auth/login }, key: ["header:x-api-key"], optional: true, algorithm: fixed_window, limit: 3, window: 1d }
  - { name: token, match: { method: DELETE, path: /auth/login }, key: ["header:authorization"], optional: true, algorithm: fixed_window, limit: 3, window: 1d }
  - { name: user, match: { method: GET, path: /auth/login }, key: ["query:user"], optional: true, algorithm: fixed_window, limit: 3, window: 1d }
  - { name: descriptor, match: { domain: public, path: /auth/login }, key: ["header:x-api-key"], optional: true, algorithm: fixed_window, limit: 3, window: 1d }
"#;
const ALLOWED: u64 = 3;

/// A request whose variants are sent, and the identity by which the application counts it.
struct Subject {
    target: &'static str,
    arguments: &'static [&'static str],
    identity: &'static str,
}

const PATHS: Subject = Subject {
    target: "/auth/login",
    arguments: &["--method", "POST"],
    identity: "session=- key=- token=- user=-",
};
const COOKIE: Subject = Subject {
    target: "/auth/login",
    arguments: &[
        "--method",
        "PUT",
        "--class",
        "cookie",
        "--cookie",
        "session=abc",
    ],
    identity: "session=abc key=- token=- user=-",
};
const API_KEY: Subject = Subject {
    target: "/auth/login",
    arguments: &[
        "--method",
        "PATCH",
        "--class",
        "header",
        "--header",
        "X-Api-Key: k",
    ],
    identity: "session=- key=k token=- user=-",
};
const TOKEN: Subject = Subject {
    target: "/auth/login",
    arguments: &[
        "--method",
        "DELETE",
        "--class",
        "header",
        "--class",
        "scheme",
        "--header",
        "Authorization: Bearer t",
    ],
    identity: "session=- key=- token=t user=-",
};
const QUERY: Subject = Subject {
    target: "/auth/login?user=ann",
    arguments: &["--method", "GET", "--class", "query"],
    identity: "session=- key=- token=- user=ann",
};

fn script(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stacks")).join(name)
}

/// How often the application's login was reached with this identity.
fn hits(backend: &Backend, identity: &str) -> u64 {
    let response = reverse_proxy::get(backend.addr(), "/hits", &[]);
    let hits: Value = serde_json::from_slice(&response.body).expect("JSON");
    hits[identity].as_u64().unwrap_or_default()
}

/// The variants that got past the limit, and what does not agree with the application's count.
fn audit(backend: &Backend, proxy: ProxyFile, subject: &Subject, url: &str) -> Vec<String> {
    let before = hits(backend, subject.identity);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args([
        "audit-paths",
        "--json",
        "--quiet",
        "--timeout",
        "20s",
        "--url",
        url,
    ]);
    let output = command
        .args(subject.arguments)
        .output()
        .expect("the binary was built");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    let Some(uncounted) = report["uncounted"].as_array() else {
        return vec![format!("{proxy:?}: {report}")];
    };
    let mut faults: Vec<String> = uncounted
        .iter()
        .map(|variant| format!("{proxy:?}: {} {}", variant["class"], variant["request"]))
        .collect();

    let reached = hits(backend, subject.identity) - before;
    if reached != ALLOWED {
        faults.push(format!(
            "{proxy:?}: {reached} requests reached {}",
            subject.identity
        ));
    }
    faults
}

/// Audits an application behind every proxy.
fn audit_all(backend: &Backend) {
    let mut faults = Vec::new();
    for proxy in ProxyFile::ALL {
        let service = Tollgate::with_config(LIMITS);
        let running = proxy.start(&service, backend.addr());
        for subject in proxy.subjects() {
            let url = format!("http://{}{}", running.addr(), subject.target);
            faults.extend(audit(backend, proxy, subject, &url));
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

#[test]
fn express() {
    audit_all(&Backend::node(&script("node/express.js")));
}

#[test]
fn hono() {
    audit_all(&Backend::node(&script("node/hono.js")));
}

#[test]
fn node_url() {
    audit_all(&Backend::node(&script("node/url.js")));
}

#[test]
fn flask() {
    audit_all(&Backend::python(&script("python/flask_app.py")));
}

#[test]
fn fastapi() {
    audit_all(&Backend::python(&script("python/fastapi_app.py")));
}

#[test]
fn django() {
    audit_all(&Backend::python(&script("python/django_app.py")));
}
