//! Suspected mistakes are logged once, with a code.

use std::sync::{Arc, Mutex};

use tollgate::{Limit, Limiter};
use tollgate_tower::{ClientResolver, ForwardedBy, RateLimitLayer, by};
use tower::{Layer, service_fn};
use tracing_subscriber::fmt::MakeWriter;

use crate::reservations::{LossyStore, token_budget};
use crate::support::{MINUTE, from, get, hello, limiter, per_minute, send, with};

/// A log that the test can read.
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

/// The warnings and errors that are logged during `work`.
fn logged(work: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("a text");
    // Tests in one process create many layers for one request each, which is TG001.
    let is_other =
        |line: &&str| (line.contains("WARN") || line.contains("ERROR")) && !line.contains("TG001");
    text.lines().filter(is_other).map(str::to_owned).collect()
}

fn many() -> Limiter {
    limiter([per_minute("api", 1_000)])
}

/// Exactly one line is logged, with this code, and the page explains it.
fn assert_logged_once(lines: &[String], code: &str) {
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains(&format!("code=\"{code}\"")), "{lines:?}");

    let page = include_str!("../../../../docs/warnings.md");
    let section = page.split_once(&format!("## {code}\n"));
    let (_, section) = section.expect("the page explains the code");
    let quote = section.lines().find_map(|line| line.strip_prefix("> "));
    assert!(
        lines[0].contains(quote.expect("the page quotes the message")),
        "{lines:?}"
    );
    assert!(
        lines[0].contains(&format!("docs/warnings.md#{}", code.to_lowercase())),
        "{lines:?}"
    );
}

#[test]
fn an_untrusted_proxy_is_detected() {
    let layer = RateLimitLayer::new(&many(), "api", by::client_address());
    let service = layer.layer(service_fn(hello));
    for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let layer = RateLimitLayer::new(&many(), "api", by::client_address());
        let lines = logged(|| {
            let service = layer.layer(service_fn(hello));
            for _ in 0..10 {
                send(&service, with("/", &[(header, "198.51.100.1")]));
            }
        });
        assert_logged_once(&lines, "TG002");
        assert!(lines[0].contains("203.0.113.7"), "{lines:?}");
    }
    assert!(
        logged(|| drop(send(&service, get("/")))).is_empty(),
        "no warning without forwarding headers"
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
        let request = with("/", &[("x-forwarded-for", "198.51.100.1")]);
        drop(send(&service, request));
    });
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn layers_that_share_a_client_address_warn_once() {
    let client = by::client_address();
    let limits = limiter([per_minute("api", 9), per_minute("site", 9)]);
    let layers = (
        RateLimitLayer::new(&limits, "site", client.clone()),
        RateLimitLayer::new(&limits, "api", client),
    );
    let service = layers.layer(service_fn(hello));
    let request = with("/", &[("x-forwarded-for", "198.51.100.1")]);
    let lines = logged(|| drop(send(&service, request)));

    assert_logged_once(&lines, "TG002");
}

#[test]
fn a_limit_applied_twice_is_detected() {
    let limits = many();
    let layer = || RateLimitLayer::new(&limits, "api", by::everyone());
    let service = (layer(), layer()).layer(service_fn(hello));
    let lines = logged(|| {
        for _ in 0..10 {
            send(&service, get("/"));
        }
    });

    assert_logged_once(&lines, "TG003");

    let lines = logged(|| drop(layer().and("api", by::client_address())));
    assert_logged_once(&lines, "TG003");

    // A limit of another limiter is another limit, even with the same name.
    let other = RateLimitLayer::new(&many(), "api", by::everyone());
    let service = (layer(), other).layer(service_fn(hello));
    assert!(logged(|| drop(send(&service, get("/")))).is_empty());
}

#[test]
fn a_private_peer_is_detected() {
    let layer = RateLimitLayer::new(&many(), "api", by::client_address());
    let service = layer.layer(service_fn(hello));
    assert!(
        logged(|| drop(send(&service, from("127.0.0.1:1", get("/"))))).is_empty(),
        "no warning for local tests"
    );

    let lines = logged(|| {
        for _ in 0..10 {
            send(&service, from("10.0.0.1:1", get("/")));
        }
    });
    assert_logged_once(&lines, "TG004");
}

#[test]
fn a_misconfiguration_is_logged_once() {
    let limits = Limiter::in_memory([Limit::fixed_window("api", 5, MINUTE)]).unwrap();
    let layer = RateLimitLayer::new(&limits, "api", by::client_address());
    let service = layer.layer(service_fn(hello));
    let lines = logged(|| {
        for _ in 0..3 {
            send(&service, http::Request::new(()));
        }
    });

    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("into_make_service_with_connect_info"),
        "{lines:?}"
    );
}

#[test]
fn settlements_that_fail_are_logged_once() {
    let (store, clock) = LossyStore::new(3);
    let limiter = Limiter::builder().store(store).clock(clock);
    let limiter = limiter.limit(per_minute("tokens", 1_000)).build().unwrap();
    let service = token_budget(&limiter)
        .settle(|_| Some(3))
        .layer(service_fn(hello));

    let lines = logged(|| {
        for _ in 0..5 {
            send(&service, get("/"));
        }
    });
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("actual costs of requests are not charged"),
        "{lines:?}"
    );
}
