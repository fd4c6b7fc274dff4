//! Hooks, events and metrics.

use std::sync::{Arc, Mutex};

use tollgate::{Decision, FailurePolicy, Limit, Limiter};
use tollgate_tower::{Head, RateLimitLayer, by};
use tower::{Layer, service_fn};

use crate::support::{MINUTE, ask, away, get, hello, limiter, per_minute, status};

/// What hooks were told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn hook(&self, word: &'static str) -> impl Fn(&Head<'_>, &Decision) + Send + Sync + 'static {
        let told = self.0.clone();
        move |head, decision| {
            let line = format!("{word} {} by {}", head.path(), decision.source().as_str());
            told.lock().expect("no panic").push(line);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

fn hooked(limits: &Limiter, told: &Told) -> RateLimitLayer {
    RateLimitLayer::new(limits, "api", by::everyone())
        .on_allowed(told.hook("allowed"))
        .on_denied(told.hook("denied"))
        .on_degraded(told.hook("degraded"))
}

#[test]
fn hooks_are_told_of_every_decision() {
    let told = Told::default();
    let service = hooked(&limiter([per_minute("api", 1)]), &told).layer(service_fn(hello));
    ask(&service, get("/a"));
    ask(&service, get("/b"));
    assert_eq!(told.take(), ["allowed /a by store", "denied /b by store"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_asked_once_for_a_request_whether_it_must_wait_or_not() {
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
        away(Limit::fixed_window("api", 9, MINUTE)),
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
async fn hooks_are_told_when_policies_decide() {
    let limit = Limit::fixed_window("api", 1, MINUTE).on_store_failure(FailurePolicy::Deny);
    let told = Told::default();
    let service = hooked(&away(limit), &told).layer(service_fn(hello));
    let response = tokio::task::spawn_blocking(move || status(&service, get("/a")))
        .await
        .unwrap();
    assert_eq!(response, 503);
    assert_eq!(
        told.take(),
        ["denied /a by fallback", "degraded /a by fallback"]
    );
}

/// A recorder that remembers what was counted, as text.
#[derive(Default)]
struct Counted(Mutex<Vec<String>>);

struct Counter(&'static Counted, String);

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

struct Recorder(&'static Counted);

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
fn decisions_are_counted_under_the_names_of_the_service() {
    let counted: &'static Counted = Box::leak(Box::default());
    let limits = limiter([per_minute("api", 1), per_minute("shadow", 1).shadow()]);
    let layer = RateLimitLayer::new(&limits, "api", by::everyone()).and("shadow", by::everyone());
    let only_shadow = RateLimitLayer::new(&limits, "shadow", by::everyone());
    metrics::with_local_recorder(&Recorder(counted), || {
        let service = layer.layer(service_fn(hello));
        ask(&service, get("/"));
        ask(&service, get("/"));
        ask(&only_shadow.layer(service_fn(hello)), get("/"));
    });
    let mut seen = counted.0.lock().expect("no panic").clone();
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
    let rest = counted.0.lock().expect("no panic");
    assert!(
        rest.iter()
            .any(|line| line == "tollgate_decision_duration_seconds{} recorded")
    );
    assert!(rest.iter().any(|line| line == "tollgate_degraded{} = 0"));
}
