//! Hooks and metrics.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use tollgate::{Decision, FailurePolicy, Limit, Limiter};
use tollgate_tower::{RateLimitLayer, RequestHead, by};
use tower::{Layer, service_fn};

use crate::reservations::{LossyStore, token_budget};
use crate::support::{MINUTE, get, hello, limiter, per_minute, send, status, unavailable};

/// The calls of hooks, as text.
#[derive(Clone, Default)]
struct HookLog(Arc<Mutex<Vec<String>>>);

impl HookLog {
    fn hook(
        &self,
        event: &'static str,
    ) -> impl Fn(&RequestHead<'_>, &Decision) + Send + Sync + 'static {
        let log = self.0.clone();
        move |head, decision| {
            let line = format!("{event} {} by {}", head.path(), decision.source().as_str());
            log.lock().expect("no panic").push(line);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

fn hooked(limits: &Limiter, log: &HookLog) -> RateLimitLayer {
    RateLimitLayer::new(limits, "api", by::everyone())
        .on_allowed(log.hook("allowed"))
        .on_denied(log.hook("denied"))
        .on_degraded(log.hook("degraded"))
}

#[test]
fn hooks_are_called_for_every_decision() {
    let log = HookLog::default();
    let service = hooked(&limiter([per_minute("api", 1)]), &log).layer(service_fn(hello));
    send(&service, get("/a"));
    send(&service, get("/b"));
    assert_eq!(log.take(), ["allowed /a by store", "denied /b by store"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_called_once_per_request() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counting = asked.clone();
    let layer = |limits: &Limiter| {
        let asked = counting.clone();
        RateLimitLayer::new(limits, "api", by::everyone()).cost(move |_| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            1
        })
    };
    let services = [
        limiter([per_minute("api", 9)]),
        unavailable(Limit::fixed_window("api", 9, MINUTE)),
    ]
    .map(|limits| layer(&limits).layer(service_fn(hello)));

    for service in services {
        asked.store(0, std::sync::atomic::Ordering::Relaxed);
        tokio::task::spawn_blocking(move || status(&service, get("/a")))
            .await
            .unwrap();
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_called_for_degraded_decisions() {
    let limit = Limit::fixed_window("api", 1, MINUTE).on_store_failure(FailurePolicy::Deny);
    let log = HookLog::default();
    let service = hooked(&unavailable(limit), &log).layer(service_fn(hello));
    let response = tokio::task::spawn_blocking(move || status(&service, get("/a")))
        .await
        .unwrap();

    assert_eq!(response, 503);
    assert_eq!(
        log.take(),
        ["denied /a by fallback", "degraded /a by fallback"]
    );
}

/// What a recorder has recorded, as text.
#[derive(Default)]
struct RecordedMetrics(Mutex<Vec<String>>);

struct Counter(&'static RecordedMetrics, String);

impl metrics::CounterFn for Counter {
    fn increment(&self, by: u64) {
        self.0
            .0
            .lock()
            .expect("no panic")
            .push(format!("{} + {by}", self.1));
    }

    fn absolute(&self, _: u64) {}
}

impl metrics::GaugeFn for Counter {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    fn set(&self, value: f64) {
        self.0
            .0
            .lock()
            .expect("no panic")
            .push(format!("{} = {value}", self.1));
    }
}

impl metrics::HistogramFn for Counter {
    fn record(&self, _: f64) {
        self.0
            .0
            .lock()
            .expect("no panic")
            .push(format!("{} recorded", self.1));
    }
}

struct Recorder(&'static RecordedMetrics);

fn named(key: &metrics::Key) -> String {
    let labels: Vec<String> = key
        .labels()
        .map(|label| format!("{}={}", label.key(), label.value()))
        .collect();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl metrics::Recorder for Recorder {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(Arc::new(Counter(self.0, named(key))))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(Arc::new(Counter(self.0, named(key))))
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::from_arc(Arc::new(Counter(self.0, named(key))))
    }
}

#[test]
fn metrics_have_the_names_of_the_service() {
    let recorded: &'static RecordedMetrics = Box::leak(Box::default());
    let limits = limiter([per_minute("api", 1), per_minute("shadow", 1).shadow()]);
    let layer = RateLimitLayer::new(&limits, "api", by::everyone()).and("shadow", by::everyone());
    let only_shadow = RateLimitLayer::new(&limits, "shadow", by::everyone());
    metrics::with_local_recorder(&Recorder(recorded), || {
        let service = layer.layer(service_fn(hello));
        send(&service, get("/"));
        send(&service, get("/"));
        send(&only_shadow.layer(service_fn(hello)), get("/"));
    });
    let mut seen = recorded.0.lock().expect("no panic").clone();
    seen.retain(|line| line.starts_with("tollgate_decisions_total"));
    let line = |limit, outcome| {
        format!("tollgate_decisions_total{{limit={limit},outcome={outcome},source=store}} + 1")
    };

    assert_eq!(
        seen,
        [
            line("api", "allowed"),
            line("shadow", "allowed"),
            line("api", "denied"),
            line("shadow", "shadow_denied"),
            line("shadow", "shadow_denied"),
        ]
    );

    let rest = recorded.0.lock().expect("no panic");
    assert!(
        rest.iter()
            .any(|line| line == "tollgate_decision_duration_seconds{} recorded")
    );
    assert!(rest.iter().any(|line| line == "tollgate_degraded{} = 0"));
}

#[test]
fn settlements_that_fail_are_counted() {
    let recorded: &'static RecordedMetrics = Box::leak(Box::default());
    let (store, clock) = LossyStore::new(1);
    let limiter = Limiter::builder().store(store).clock(clock);
    let limiter = limiter.limit(per_minute("tokens", 100)).build().unwrap();
    let service = token_budget(&limiter).layer(service_fn(failing));

    metrics::with_local_recorder(&Recorder(recorded), || {
        // Without a runtime nothing is repeated.
        assert_eq!(status(&service, get("/")), 500);
        assert_eq!(status(&service, get("/")), 500);
    });
    let mut seen = recorded.0.lock().expect("no panic").clone();
    seen.retain(|line| line.contains("settlements"));
    assert_eq!(
        seen,
        ["tollgate_failed_settlements_total{limit=tokens} + 1"],
        "the second settlement succeeds"
    );
}

/// An application whose requests cost nothing, because it fails.
async fn failing<B>(_: http::Request<B>) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let mut response = http::Response::new(Full::default());
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    Ok(response)
}
