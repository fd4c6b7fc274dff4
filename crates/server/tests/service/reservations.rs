//! Costs that are known only afterwards: reserve, settle, cancel and count.

use std::thread;

use serde_json::{Value, json};
use testkit::reverse_proxy::{self, Response};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate::{Clock as _, SystemClock};

use crate::harness::{PATIENCE, Tollgate};

/// A budget for a language model: requests, tokens by their weights, and calls in flight.
const BUDGET: &str = "
limits:
  - { name: requests, key: [user], algorithm: fixed_window, limit: 10, window: 1h, cost: 1 }
  - { name: tokens, key: [user], algorithm: fixed_window, limit: 1000, window: 1h, unit: tokens,
      cost: { tokens: { input: 1, output: 4, cached: 0.1 } } }
  - { name: in-flight, key: [user], algorithm: concurrency, limit: 2, permit_timeout: 1h }
";

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).expect("JSON")
}

fn post(service: &Tollgate, path: &str, body: &Value) -> Value {
    let response = service.post(path, &body.to_string());
    assert_eq!(response.status, 200, "{path} {body}: {}", response.text());
    json_of(&response)
}

/// What is left of each limit, in the order of the request.
fn left(service: &Tollgate, request: &Value) -> Vec<u64> {
    let mut request = request.clone();
    request["cost"] = json!(0);
    let peek = post(service, "/v1/peek", &request);
    let limits = peek["limits"].as_array().expect("a list").iter();
    limits
        .map(|limit| limit["remaining"].as_u64().expect("a number"))
        .collect()
}

fn token(reserved: &Value) -> &str {
    reserved["reservation"].as_str().expect("a token")
}

fn settle(service: &Tollgate, token: &str, actual: u64) -> Value {
    let body = json!({"reservation": token, "actual": actual});
    post(service, "/v1/settle", &body)
}

/// Replicas on one store, which they have reached.
pub(crate) fn replicas<const N: usize>(server: &Server, limits: &str) -> [Tollgate; N] {
    let url = server.url();
    let config = format!("store: {{type: redis, endpoints: ['{url}'], timeout: 1s}}\n{limits}");
    let services = [(); N].map(|()| Tollgate::with_config(&config));
    let peek = json!({"limits": [{"name": "ready", "key": "x", "algorithm": "fixed_window",
        "limit": 1, "window": "1m", "on_store_failure": "deny"}]});
    wait::until_true(PATIENCE, "every replica to reach the store", || {
        let peek = |service: &Tollgate| service.post("/v1/peek", &peek.to_string()).status;
        services.iter().all(|service| peek(service) == 200)
    });
    services
}

/// A limit of 100 tokens per minute, and five concurrent calls that estimate 20 and use 130 each.
/// A gateway is known to have let 663 tokens through such a limit, and more with every replica.
#[test]
fn five_calls_that_use_more_than_they_estimate_are_paid_to_the_last_token() {
    const LIMIT: &str = "limits: [{ name: tokens, key: [user], algorithm: token_bucket,
        capacity: 100, refill_rate: 100/m, unit: tokens }]";
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let services: [Tollgate; 4] = replicas(&server, LIMIT);
        let request = json!({"attributes": {"user": "ann"}, "cost": 20, "ttl": "60s"});
        let clock = SystemClock::new();
        let started_at = clock.now();

        // Five of twelve concurrent calls on four replicas fit, no matter which. Within the time
        // of this test the bucket refills less than an estimate.
        let reserve = |index: usize| {
            let service = &services[index % services.len()];
            service.post("/v1/reserve", &request.to_string())
        };
        let responses: Vec<Response> = thread::scope(|scope| {
            let calls: Vec<_> = (0..12)
                .map(|index| scope.spawn(move || reserve(index)))
                .collect();
            calls
                .into_iter()
                .map(|call| call.join().expect("an answer"))
                .collect()
        });
        let reserved: Vec<Value> = responses
            .iter()
            .filter(|response| response.status == 200)
            .map(json_of)
            .collect();
        let refilled = clock.now().since(started_at).get() / 12_000_000;
        let allowed = reserved.len() as u64;
        assert!(
            (5..=5 + refilled).contains(&allowed),
            "{allowed} on {flavor:?}"
        );

        for (index, reserved) in reserved.iter().take(5).enumerate() {
            let settled = settle(&services[(index + 1) % 4], token(reserved), 130);
            assert_eq!(settled["reservation"], "open");
            assert_eq!(settled["charged"], 130);
        }
        // 650 tokens are used, so 550 are owed. One more is available after 551 of them, at one in
        // 600 ms, less what has been refilled since the first call.
        let check = json!({"attributes": {"user": "ann"}});
        let denied = services[3].check(&check.to_string());
        let elapsed = clock.now().since(started_at).get() / 1_000;
        assert_eq!(denied.status, 429);
        let limit = &json_of(&denied)["limits"][0];
        let retry_after = limit["retry_after_ms"].as_u64().expect("a time");
        let extra = (allowed - 5) * 20 * 600;
        let owed = 551 * 600 + extra;
        assert_eq!(limit["remaining"], 0);
        assert!(retry_after <= owed, "{retry_after} ms");
        assert!(retry_after + elapsed + 1 >= owed, "{retry_after} ms");
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

/// The process that made a reservation is killed before it settles it.
#[test]
fn what_a_killed_replica_has_reserved_is_kept_or_released() {
    const LIMITS: &str = "limits:
  - { name: kept, key: [user], algorithm: sliding_log, limit: 10, window: 1h, reservation_max: 1 }
  - { name: released, key: [user], algorithm: sliding_log, limit: 10, window: 1h,
      reservation_max: 1, on_reservation_expiry: release }";
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let [mut one, other]: [Tollgate; 2] = replicas(&server, LIMITS);
        let request = json!({"attributes": {"user": "ann"}, "cost": 10, "ttl": "300ms"});
        let reserved = post(&one, "/v1/reserve", &request);
        one.signal("KILL");
        one.wait_for_exit();

        let both = json!({"attributes": {"user": "ann"}});
        wait::until_true(PATIENCE, "the reservation to expire", || {
            left(&other, &both) == [0, 10]
        });
        // A settlement that comes too late is a plain charge.
        let settled = settle(&other, token(&reserved), 3);
        assert_eq!(settled["reservation"], "unknown", "{flavor:?}");
        assert_eq!(left(&other, &both), [0, 7]);
        assert_eq!(
            settle(&other, token(&reserved), 3)["reservation"],
            "settled"
        );
        assert_eq!(left(&other, &both), [0, 7]);
    }
}

#[test]
fn requests_tokens_and_calls_in_flight_pass_together_or_not_at_all() {
    let service = Tollgate::with_config(BUDGET);
    let ann = json!({"attributes": {"user": "ann"}});
    let estimate = json!({"attributes": {"user": "ann"}, "tokens": {"input": 200, "output": 50}});

    let first = post(&service, "/v1/reserve", &estimate);
    assert!(
        first.get("permit").is_none(),
        "settling releases the permit"
    );
    let second = post(&service, "/v1/reserve", &estimate);
    assert_eq!(left(&service, &ann), [8, 200, 0]);
    let third = service.post("/v1/reserve", &estimate.to_string());
    assert_eq!(third.status, 429, "two calls are in flight");
    assert_eq!(
        left(&service, &ann),
        [8, 200, 0],
        "a denied request is charged nowhere"
    );

    // 190 + 4 * 20 + 0.1 * 55, rounded up, in place of 400.
    let actual = json!({"reservation": token(&first),
        "tokens": {"input": 190, "output": 20, "cached": 55}});
    assert_eq!(post(&service, "/v1/settle", &actual)["charged"], 276);
    assert_eq!(left(&service, &ann), [8, 324, 1]);

    let cancelled = post(
        &service,
        "/v1/cancel",
        &json!({"reservation": token(&second)}),
    );
    assert_eq!(cancelled["charged"], 0);
    assert_eq!(left(&service, &ann), [9, 724, 2], "nothing was done");
}

#[test]
fn an_estimate_takes_at_most_its_share_and_is_settled_in_full() {
    let service = Tollgate::start();
    let limit = |name: &str, settings: &str| {
        let text = format!(
            r#"{{"name": "{name}", "key": "ann", "algorithm": "fixed_window", "limit": 100,
                "window": "1h"{settings}}}"#
        );
        let limit: Value = serde_json::from_str(&text).expect("JSON");
        json!({"limits": [limit], "cost": 90})
    };
    let half = limit("half", "");
    let reserved = post(&service, "/v1/reserve", &half);
    assert_eq!(left(&service, &half), [50]);
    settle(&service, token(&reserved), 90);
    assert_eq!(left(&service, &half), [10]);

    let whole = limit("whole", r#", "reservation_max": 1"#);
    post(&service, "/v1/reserve", &whole);
    assert_eq!(left(&service, &whole), [10]);

    // No counter owes more than it may.
    let bounded = limit("bounded", r#", "debt_max": 25"#);
    let reserved = post(&service, "/v1/reserve", &bounded);
    assert_eq!(settle(&service, token(&reserved), 1_000)["charged"], 125);
    post(&service, "/v1/refund", &{
        let mut refund = bounded.clone();
        refund["cost"] = json!(26);
        refund
    });
    assert_eq!(left(&service, &bounded), [1]);
}

#[test]
fn a_count_is_charged_whether_it_fits_or_not() {
    let service = Tollgate::start();
    let count = json!({"limits": [{"name": "bytes", "key": "ann", "algorithm": "token_bucket",
        "capacity": 100, "refill_rate": "1/m"}], "cost": 70, "count": true});
    let first = post(&service, "/v1/check", &count);
    assert_eq!(
        (&first["allowed"], &first["limits"][0]["remaining"]),
        (&json!(true), &json!(30))
    );

    // 70 more than a unit a minute: it fits again when 40 + 70 units have been refilled.
    let second = post(&service, "/v1/check", &count);
    assert_eq!(second["allowed"], false);
    assert_eq!(second["limits"][0]["remaining"], 0);
    let retry_after = second["limits"][0]["retry_after_ms"]
        .as_u64()
        .expect("a time");
    assert!(
        (109 * 60_000..=110 * 60_000).contains(&retry_after),
        "{retry_after}"
    );
}

#[test]
fn a_batch_reserves_and_settles() {
    let service = Tollgate::with_config(BUDGET);
    let reserve = json!({"op": "reserve", "attributes": {"user": "ann"}, "tokens": {"input": 100}});
    let batch = json!({"requests": [reserve, reserve, {"op": "settle", "reservation": "x"}]});
    let answers = post(&service, "/v1/batch", &batch);
    let answers = answers["answers"].as_array().expect("a list");
    let statuses: Vec<&Value> = answers.iter().map(|answer| &answer["status"]).collect();
    assert_eq!(statuses, [200, 200, 422]);

    let settle = |index: usize, op: &str| {
        let mut settle = json!({"op": op, "reservation": token(&answers[index]["body"])});
        if op == "settle" {
            settle["actual"] = json!(30);
        }
        settle
    };
    let batch =
        json!({"requests": [settle(0, "settle"), settle(0, "settle"), settle(1, "cancel")]});
    let answers = post(&service, "/v1/batch", &batch);
    let known: Vec<&Value> = answers["answers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|answer| &answer["body"]["reservation"])
        .collect();
    assert_eq!(known, ["open", "settled", "open"]);
    assert_eq!(
        left(&service, &json!({"attributes": {"user": "ann"}})),
        [9, 970, 2]
    );
}

/// The tier of a caller has a counter with other numbers.
#[test]
fn a_reservation_remembers_the_tier_of_its_caller() {
    let service = Tollgate::with_config(
        "tiers: { free: { capacity: 10, refill_rate: 1/h }, pro: { capacity: 1000, refill_rate: 1/h } }
limits: [{ name: tokens, key: [user], algorithm: token_bucket, tier: { by: plan, default: free } }]",
    );
    let pro = json!({"attributes": {"user": "ann", "plan": "pro"}, "cost": 400});
    let reserved = post(&service, "/v1/reserve", &pro);
    assert_eq!(left(&service, &pro), [600]);
    settle(&service, token(&reserved), 100);
    assert_eq!(left(&service, &pro), [900]);
}

/// Reservations are made and settled while the store comes and goes.
#[test]
fn a_reservation_made_without_the_store_is_charged_when_it_is_settled() {
    let server = Server::start(Flavor::Redis);
    let [service]: [Tollgate; 1] = replicas(
        &server,
        "limits: [{ name: tokens, key: [user], algorithm: sliding_log, limit: 100, window: 1h }]",
    );
    let ann = json!({"attributes": {"user": "ann"}, "cost": 20});
    let before = post(&service, "/v1/reserve", &ann);
    server.kill();
    let mut during = Value::Null;
    wait::until_true(PATIENCE, "the outage to be noticed", || {
        during = post(&service, "/v1/reserve", &ann);
        during["degraded"] == true
    });

    let body = json!({"reservation": token(&before), "actual": 5});
    let failed = service.post("/v1/settle", &body.to_string());
    assert_eq!(failed.status, 503);
    assert_eq!(json_of(&failed)["retryable"], true);

    server.restart();
    wait::until_true(PATIENCE, "the store to be found", || {
        let body = json!({"reservation": token(&during), "actual": 30});
        service.post("/v1/settle", &body.to_string()).status == 200
    });
    // The server has lost what was reserved before: that is a plain charge, too.
    assert_eq!(
        settle(&service, token(&before), 5)["reservation"],
        "unknown"
    );
    assert_eq!(left(&service, &ann), [65]);
}

/// The samples of reservations on the page of metrics, without the name of the metric.
fn counted(service: &Tollgate) -> Vec<String> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let samples = page.lines();
    let samples = samples.filter_map(|line| line.strip_prefix("tollgate_reservations_total"));
    samples.map(str::to_owned).collect()
}

/// Each replica counts what it did, so the sums over all replicas tell how many are open.
#[test]
fn every_replica_counts_the_reservations_that_it_makes_and_ends() {
    let server = Server::start(Flavor::Redis);
    let [one, other]: [Tollgate; 2] = replicas(&server, BUDGET);
    assert_eq!(counted(&one), Vec::<String>::new());

    let ann = json!({"attributes": {"user": "ann"}, "tokens": {"input": 10}});
    let [settled, cancelled] = [(); 2].map(|()| post(&one, "/v1/reserve", &ann));
    let denied = one.post("/v1/reserve", &ann.to_string());
    assert_eq!(denied.status, 429, "two calls are in flight");
    for _ in 0..2 {
        settle(&other, token(&settled), 5);
    }
    let cancel = json!({"reservation": token(&cancelled)});
    post(&one, "/v1/cancel", &cancel);

    let chat = json!({"limits": [{"name": "chat", "key": "ann", "algorithm": "sliding_log",
        "limit": 9, "window": "1h", "on_reservation_expiry": "release"}]});
    let mut brief = chat.clone();
    brief["ttl"] = json!("1ms");
    let expired = post(&one, "/v1/reserve", &brief);
    wait::until_true(PATIENCE, "the reservation to expire", || {
        left(&one, &chat) == [9]
    });
    settle(&other, token(&expired), 1);

    let samples = |limits: &[&str], results: &[&str]| {
        let sample = |limit: &str, result: &str| {
            let (result, count) = result.split_once(' ').expect("a number");
            format!("{{limit=\"{limit}\",result=\"{result}\"}} {count}")
        };
        let of_limit = |limit: &&str| results.iter().map(|result| sample(limit, result)).collect();
        let of_limits: Vec<Vec<String>> = limits.iter().map(of_limit).collect();
        of_limits.concat()
    };
    let limits = ["requests", "tokens", "in-flight"];
    let expected = [
        samples(&limits, &["reserved 2", "cancelled 1"]),
        samples(&["chat"], &["reserved 1"]),
    ];
    assert_eq!(counted(&one), expected.concat());
    let expected = [
        samples(&limits, &["settled 1"]),
        samples(&["chat"], &["unknown 1"]),
    ];
    assert_eq!(counted(&other), expected.concat());
}
