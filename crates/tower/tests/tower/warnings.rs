//! Mistakes that are easily made are told, once, with a code.

use std::sync::{Arc, Mutex};

use tollgate::{Limit, Limiter};
use tollgate_tower::{ClientResolver, ForwardedBy, RateLimitLayer, by};
use tower::{Layer, service_fn};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{MINUTE, ask, from, get, hello, limiter, per_minute, with};

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The warnings and errors that are logged meanwhile.
fn logged(work: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("a text");
    // Tests in one process make many layers for one request each, which is a mistake of its own.
    let is_other =
        |line: &&str| (line.contains("WARN") || line.contains("ERROR")) && !line.contains("TG001");
    text.lines().filter(is_other).map(str::to_owned).collect()
}

fn many() -> Limiter {
    limiter([per_minute("api", 1_000)])
}

/// One line, with this code and a page that explains it.
fn assert_told_once(lines: &[String], code: &str) {
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains(&format!("code=\"{code}\"")), "{lines:?}");
    let page = include_str!("../../../../docs/warnings.md");
    assert!(
        page.contains(&format!("## {code}")),
        "the page explains {code}"
    );
    assert!(
        lines[0].contains(&format!("docs/warnings.md#{}", code.to_lowercase())),
        "{lines:?}"
    );
}

#[test]
fn a_proxy_that_nobody_trusts_is_noticed() {
    let layer = RateLimitLayer::new(&many(), "api", by::client_address());
    let service = layer.layer(service_fn(hello));
    for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let layer = RateLimitLayer::new(&many(), "api", by::client_address());
        let lines = logged(|| {
            let service = layer.layer(service_fn(hello));
            for _ in 0..10 {
                ask(&service, with("/", &[(header, "198.51.100.1")]));
            }
        });
        assert_told_once(&lines, "TG002");
        assert!(lines[0].contains("203.0.113.7"), "{lines:?}");
    }
    assert!(
        logged(|| drop(ask(&service, get("/")))).is_empty(),
        "without such headers there is nothing to say"
    );

    let clients = ClientResolver::new(
        vec!["203.0.113.0/24".parse().unwrap()],
        64,
        ForwardedBy::XForwardedFor,
    )
    .unwrap();
    let trusting = RateLimitLayer::new(&many(), "api", by::client_address().behind(clients));
    let service = trusting.layer(service_fn(hello));
    let lines = logged(|| {
        drop(ask(
            &service,
            with("/", &[("x-forwarded-for", "198.51.100.1")]),
        ))
    });
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn the_same_limit_twice_is_noticed() {
    let limits = many();
    let layer = || RateLimitLayer::new(&limits, "api", by::everyone());
    let service = (layer(), layer()).layer(service_fn(hello));
    let lines = logged(|| {
        for _ in 0..10 {
            ask(&service, get("/"));
        }
    });
    assert_told_once(&lines, "TG003");
    let lines = logged(|| drop(layer().and("api", by::client_address())));
    assert_told_once(&lines, "TG003");
    // Another limiter's limit of the same name is another limit.
    let other = RateLimitLayer::new(&many(), "api", by::everyone());
    let service = (layer(), other).layer(service_fn(hello));
    assert!(logged(|| drop(ask(&service, get("/")))).is_empty());
}

#[test]
fn a_private_address_as_a_key_is_noticed() {
    let layer = RateLimitLayer::new(&many(), "api", by::client_address());
    let service = layer.layer(service_fn(hello));
    assert!(
        logged(|| drop(ask(&service, from("127.0.0.1:1", get("/"))))).is_empty(),
        "applications are tried out"
    );
    let lines = logged(|| {
        for _ in 0..10 {
            ask(&service, from("10.0.0.1:1", get("/")));
        }
    });
    assert_told_once(&lines, "TG004");
}

#[test]
fn a_mistake_that_lets_nothing_pass_is_an_error_told_once() {
    let limits = Limiter::in_memory([Limit::fixed_window("api", 5, MINUTE)]);
    let layer = RateLimitLayer::new(&limits, "api", by::client_address());
    let service = layer.layer(service_fn(hello));
    let lines = logged(|| {
        for _ in 0..3 {
            ask(&service, http::Request::new(()));
        }
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("into_make_service_with_connect_info"),
        "{lines:?}"
    );
}
