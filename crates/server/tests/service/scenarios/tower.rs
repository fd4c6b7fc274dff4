//! The column `tower`: the layer in the application's process, on a limiter of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use serde_json::Value;
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::{FailurePolicy, Limit, Limiter, Lockout, MemoryStore, Rate, ReservationExpiry};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{ActualCost, RateLimitLayer, ResponseBody, by};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::table::{Answer, Operation};
use super::{Call, Front, Scenario, Seen, USER};
use crate::harness::PATIENCE;

pub(super) struct Tower {
    runtime: Runtime,
    limiter: Limiter,
    counts: Counts,
    /// A response that is being sent: it holds permits and reservations.
    sending: Option<Sending>,
}

struct Sending {
    _response: Response<ResponseBody<Full<Bytes>>>,
    actual_cost: Option<ActualCost>,
}

impl Tower {
    pub(super) fn new(scenarios: &[&Scenario], store: &Value) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let inside = runtime.enter();
        let builder = Limiter::builder().expected_replicas(1);
        let builder = match store["endpoints"][0].as_str() {
            None => builder.store(MemoryStore::new()),
            Some(url) => {
                let timeout = if store["timeout"].is_null() {
                    10
                } else {
                    5_000
                };
                let redis = RedisBuilder::standalone(url).timeout(Duration::from_millis(timeout));
                let redis = redis.build().expect("right settings");
                if timeout > 10 {
                    assert!(runtime.block_on(redis.ready(Duration::from_secs(10))));
                }
                builder.store(redis)
            }
        };
        let limits = scenarios.iter().flat_map(|scenario| &scenario.limits);
        // Tiers and costs by attributes are parts of the file.
        let limits = limits
            .filter(|limit| limit.get("tier").is_none())
            .map(limit);
        let limiter = builder.limits(limits).build().expect("right limits");
        drop(inside);
        Self {
            runtime,
            limiter,
            counts: Counts::default(),
            sending: None,
        }
    }

    /// Sends a request through the layer. The application keeps what the layer gives it.
    fn send(&self, call: Call<'_>) -> (Seen, Sending) {
        let names = names(call.scenario);
        let mut layer = RateLimitLayer::new(
            &self.limiter,
            &names[0],
            by::header(USER).or_reject(StatusCode::UNPROCESSABLE_ENTITY),
        );
        for (name, limit) in names.iter().zip(&call.scenario.limits).skip(1) {
            layer = if limit.get("optional").is_some() {
                layer.and(name, by::header("x-team").or_skip())
            } else {
                layer.and(
                    name,
                    by::header(USER).or_reject(StatusCode::UNPROCESSABLE_ENTITY),
                )
            };
        }
        let by_header = call.step.with.get("header:x-cost");
        let by_header = by_header.map(|cost| cost.parse().expect("a number"));
        let cost = call.step.cost.or(by_header).unwrap_or(1);
        layer = layer.cost(move |_| cost);
        if call.step.operation == Operation::Reserve {
            let ttl = call.step.ttl.as_deref().map_or(60_000, millis);
            layer = layer
                .settle_by_actual_cost()
                .reservation_ttl(Duration::from_millis(ttl));
        }

        let given = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&given);
        let application = service_fn(move |request: Request<Full<Bytes>>| {
            let actual_cost = request.extensions().get::<ActualCost>().cloned();
            *kept.lock().expect("no panic") = actual_cost;
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))) }
        });
        let mut request = Request::get("/");
        for (name, value) in call.headers() {
            request = request.header(name, value);
        }
        let request = request.body(Full::default()).expect("a request");
        let asked = layer.layer(application).oneshot(request);
        let response = metrics::with_local_recorder(&self.counts, || {
            // Decided on this thread, which has the recorder.
            self.runtime.block_on(asked)
        });
        let response = response.expect("a response");
        let actual_cost = given.lock().expect("no panic").take();
        let seen = decision(&response);
        let sending = Sending {
            _response: response,
            actual_cost,
        };
        (seen, sending)
    }
}

impl Front for Tower {
    fn call(&mut self, call: Call<'_>) -> Seen {
        match call.step.operation {
            Operation::Check => self.send(call).0,
            Operation::Acquire | Operation::Reserve => {
                let (seen, sending) = self.send(call);
                self.sending = Some(sending);
                seen
            }
            Operation::Settle => {
                let sending = self.sending.take().expect("a response");
                let actual_cost = sending.actual_cost.as_ref().expect("an extension");
                let actual = call.step.actual.expect("a cost");
                let reported = actual_cost.report(&call.scenario.name, actual);
                reported.expect("a known limit");
                Seen::done()
            }
            Operation::Release => {
                drop(self.sending.take());
                Seen::done()
            }
            other => unreachable!("the table says that the layer cannot {}", other.name()),
        }
    }

    fn used(&mut self, call: Call<'_>) -> BTreeMap<String, u64> {
        // The layer settles and releases in the background, when a response ends.
        if matches!(call.step.operation, Operation::Settle | Operation::Release) {
            let is_right = |used: &BTreeMap<String, u64>| Some(used) == call.step.used.as_ref();
            wait::within(PATIENCE, || Some(self.used_now(call)).filter(is_right));
        }
        self.used_now(call)
    }

    fn counts(&mut self) -> BTreeMap<String, u64> {
        self.counts.0.lock().expect("no panic").clone()
    }
}

impl Tower {
    fn used_now(&self, call: Call<'_>) -> BTreeMap<String, u64> {
        let names = names(call.scenario);
        let used = names.iter().map(|name| {
            let look = self.limiter.peek(name, call.user).cost(0).inspect();
            let inspection = self.runtime.block_on(look).expect("a known limit");
            (name.clone(), inspection.counters[0].used)
        });
        // A limit that the request skipped has no counter.
        let is_told = |name: &String| {
            call.step
                .used
                .as_ref()
                .is_none_or(|used| used.contains_key(name))
        };
        used.filter(|(name, _)| is_told(name)).collect()
    }
}

fn names(scenario: &Scenario) -> Vec<String> {
    let names = scenario.limits.iter().map(|limit| limit["name"].as_str());
    names.map(|name| name.expect("a name").to_owned()).collect()
}

/// The limit with the numbers of the file.
fn limit(file: &Value) -> Limit {
    let name = file["name"].as_str().expect("a name");
    let number = |field: &str| file[field].as_u64().expect("a number");
    let span = |field: &Value| Duration::from_millis(millis(field.as_str().expect("a time")));
    let mut limit = match file["algorithm"].as_str() {
        Some("fixed_window") => Limit::fixed_window(name, number("limit"), span(&file["window"])),
        Some("token_bucket") => Limit::token_bucket(name, number("capacity"), Rate::per_hour(1)),
        Some("concurrency") => {
            Limit::concurrency(name, number("limit"), span(&file["permit_timeout"]))
        }
        other => unreachable!("{other:?} is not in the table"),
    };
    limit = match file["on_store_failure"].as_str() {
        Some("deny") => limit.on_store_failure(FailurePolicy::Deny),
        Some("local") => limit.on_store_failure(FailurePolicy::Local),
        _ => limit.on_store_failure(FailurePolicy::Allow),
    };
    if file["shadow"] == true {
        limit = limit.shadow();
    }
    if file["on_reservation_expiry"] == "release" {
        limit = limit.on_reservation_expiry(ReservationExpiry::Release);
    }
    if let Some(lockout) = file.get("lockout") {
        let after = u32::try_from(lockout["after"].as_u64().expect("a number")).expect("a few");
        let lockout = Lockout::new(after, span(&lockout["within"]), span(&lockout["for"]));
        limit = limit.lockout(lockout.expect("right numbers"));
    }
    limit
}

fn millis(text: &str) -> u64 {
    match text {
        "20ms" => 20,
        "1m" => 60_000,
        "1h" => 3_600_000,
        "2h" => 7_200_000,
        other => unreachable!("{other} is not in the table"),
    }
}

fn decision<B>(response: &Response<B>) -> Seen {
    let is = match response.status().as_u16() {
        200 => Answer::Allowed,
        429 | 503 => Answer::Denied,
        _ => Answer::Error,
    };
    let raw = format!("{} {:?}", response.status(), response.headers());
    let field = |name: &str| {
        let value = response.headers().get(name);
        value.map(|value| value.to_str().expect("text"))
    };
    Seen::new(is, raw).with_fields(field)
}

/// Keeps what the layer counts.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

struct Count {
    name: String,
    counts: Counts,
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        let mut counts = self.counts.0.lock().expect("no panic");
        *counts.entry(self.name.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "tollgate_decisions_total" {
            return Counter::noop();
        }
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        Counter::from_arc(Arc::new(Count {
            name: labels.join(" "),
            counts: self.clone(),
        }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
