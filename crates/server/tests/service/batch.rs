//! Many operations in one request.

use serde_json::{Value, json};
use testkit::reverse_proxy::{self, Response};
use testkit::servers::{Flavor, Reply, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const LIMITS: &str = "
limits:
  - { name: api, key: [user], algorithm: sliding_log, limit: 10, window: 1h }
  - { name: jobs, key: [user], algorithm: concurrency, limit: 1, permit_timeout: 1h }
";

fn batch(service: &Tollgate, requests: &Value) -> Vec<Value> {
    let response = service.post("/v1/batch", &json!({"requests": requests}).to_string());
    assert_eq!(response.status, 200, "{}", response.text());
    let mut body: Value = serde_json::from_slice(&response.body).expect("JSON");
    let answers = body["answers"].as_array_mut().expect("a list");
    std::mem::take(answers)
}

fn with_op(mut body: Value, op: &str) -> Value {
    body["op"] = op.into();
    body
}

fn statuses(answers: &[Value]) -> Vec<u64> {
    let statuses = answers.iter().map(|answer| answer["status"].as_u64());
    statuses.map(|status| status.expect("a status")).collect()
}

#[test]
fn answers_are_in_order_and_independent() {
    let service = Tollgate::with_config(LIMITS);
    let api = |cost: u64| json!({"limits": [{"name": "api", "key": "ann"}], "cost": cost});
    let answers = batch(
        &service,
        &json!([
            with_op(api(6), "check"),
            with_op(api(6), "check"),
            {"op": "check", "limits": ["nope"]},
            with_op(api(4), "peek"),
            with_op(api(3), "refund"),
            with_op(api(6), "check"),
            {"op": "check", "limits": [{"name": "jobs", "key": "ann"}]},
            {"op": "release", "permit": "AAAA"},
            "check",
            {"op": "check", "limits": [{"name": "chat", "key": "ann", "algorithm": "sliding_log", "limit": 3, "window": "1h"}]},
        ]),
    );
    assert_eq!(
        statuses(&answers),
        [200, 429, 422, 200, 200, 200, 200, 422, 422, 200]
    );
    let remaining = |index: usize| answers[index]["body"]["limits"][0]["remaining"].clone();
    // 6 gone, 4 left for the peek, 3 back, 6 gone.
    assert_eq!([remaining(0), remaining(3), remaining(5)], [4, 4, 1]);
    assert_eq!(answers[2]["body"]["code"], "unknown-limit");
    assert_eq!(answers[4]["body"], json!({"refunded": true}));

    let permit = answers[6]["body"]["permit"].clone();
    let release = json!({"op": "release", "permit": permit});
    let jobs = json!({"op": "check", "limits": [{"name": "jobs", "key": "ann"}]});
    let answers = batch(&service, &json!([jobs, release, jobs, release]));
    assert_eq!(statuses(&answers), [429, 200, 200, 200]);
    assert_eq!(answers[1]["body"], json!({"released": true}));
    assert_eq!(answers[3]["body"], json!({"released": false}));
}

#[test]
fn answers_have_header_fields_if_the_batch_asks_for_them() {
    let service = Tollgate::with_config(LIMITS);
    let check = json!({"op": "check", "limits": [{"name": "api", "key": "ann"}], "cost": 6});
    let requests = json!([check, check, {"op": "check", "limits": ["nope"]},
        {"op": "refund", "limits": [{"name": "api", "key": "ann"}]}]);
    let body = json!({"requests": requests, "headers": true});
    let response = service.post("/v1/batch", &body.to_string());
    let body: Value = serde_json::from_slice(&response.body).expect("JSON");

    let headers = |index: usize| &body["answers"][index]["headers"];
    assert_eq!(headers(0)["ratelimit-policy"], "\"api\";q=10;w=3600");
    assert_eq!(headers(0)["x-ratelimit-remaining"], "4");
    assert_eq!(headers(0)["retry-after"], Value::Null);
    assert_eq!(headers(1)["ratelimit"], "\"api\";r=4;t=3600");
    assert_eq!(headers(1)["retry-after"], "3600");
    assert_eq!([headers(2), headers(3)], [&Value::Null, &Value::Null]);

    let without = batch(&service, &json!([check]));
    assert_eq!(without[0]["headers"], Value::Null);
}

#[test]
fn a_reset_forgets_what_a_key_has_used() {
    let service = Tollgate::with_config(LIMITS);
    let api = |user: &str| json!({"limits": [{"name": "api", "key": user}], "cost": 10});
    let answers = batch(
        &service,
        &json!([
            with_op(api("ann"), "check"),
            with_op(api("bob"), "check"),
            with_op(api("ann"), "reset"),
            with_op(api("ann"), "check"),
            with_op(api("bob"), "check"),
            {"op": "reset", "limits": ["nope"]},
            {"op": "reset", "limits": [{"name": "api", "key": "ann"}], "count": true},
        ]),
    );
    assert_eq!(statuses(&answers), [200, 200, 200, 200, 429, 422, 422]);
    assert_eq!(answers[2]["body"], json!({"reset": true}));

    let response = service.post("/v1/reset", &api("bob").to_string());
    assert_eq!(
        (response.status, response.text()),
        (200, r#"{"reset":true}"#.into())
    );
    assert_eq!(
        service.post("/v1/check", &api("bob").to_string()).status,
        200
    );
}

/// The same requests one by one, on another service, get the same statuses and bodies.
#[test]
fn each_answer_is_that_of_its_own_path() {
    let [single, together] = [(); 2].map(|()| Tollgate::with_config(LIMITS));
    let check = |user: &str| json!({"attributes": {"user": user}, "limits": ["api"], "cost": 4});
    let requests = [
        ("check", check("ann")),
        ("check", check("ann")),
        ("check", check("ann")),
        ("refund", check("ann")),
        ("check", check("bob")),
        ("peek", check("bob")),
        ("check", json!({"attributes": {}})),
        ("check", json!({"limits": []})),
        ("check", json!({"limit": ["api"]})),
        ("check", json!([1])),
        ("release", json!({"permit": 7})),
        ("release", json!({})),
    ];
    let mut items: Vec<Value> = requests
        .iter()
        .filter(|(_, body)| body.is_object())
        .map(|(op, body)| with_op(body.clone(), op))
        .collect();
    items.insert(9, json!([1]));
    let answers = batch(&together, &json!(items));

    // Times pass between the two, and an error says where in the body it is.
    let comparable = |body: &Value| {
        let text = body.to_string();
        let text = text.split(" at line").next().unwrap_or_default().to_owned();
        let limits = body["limits"].as_array().cloned().unwrap_or_default();
        let limits: Vec<Value> = limits
            .iter()
            .map(|limit| limit["remaining"].clone())
            .collect();
        if limits.is_empty() {
            json!(text)
        } else {
            json!([body["allowed"], limits])
        }
    };
    for ((op, body), answer) in requests.iter().zip(&answers) {
        let alone = single.post(&format!("/v1/{op}"), &body.to_string());
        assert_eq!(answer["status"], alone.status, "{op} {body}: {answer}");
        let alone: Value = serde_json::from_slice(&alone.body).expect("JSON");
        assert_eq!(
            comparable(&answer["body"]),
            comparable(&alone),
            "{op} {body}"
        );
    }
}

#[test]
fn a_batch_has_up_to_256_requests() {
    let service = Tollgate::with_config(LIMITS);
    let item = json!({"op": "check", "limits": [{"name": "api", "key": "ann"}]});
    let answers = batch(&service, &json!(vec![item.clone(); 256]));
    let allowed = statuses(&answers)
        .iter()
        .filter(|status| **status == 200)
        .count();
    assert_eq!((answers.len(), allowed), (256, 10));

    let too_many = json!({"requests": vec![item; 257]}).to_string();
    assert_eq!(service.post("/v1/batch", &too_many).status, 422);
}

#[test]
fn every_request_needs_the_permission_of_its_operation() {
    let tokens = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery, allow: [peek] }";
    let service = Tollgate::with_config(&format!("{tokens}{LIMITS}"));
    let send = |headers: &[(&str, &str)]| -> Response {
        let api = json!({"limits": [{"name": "api", "key": "ann"}]});
        let requests = ["check", "peek", "refund"].map(|op| with_op(api.clone(), op));
        let body = json!({"requests": requests}).to_string();
        reverse_proxy::send(service.http, "POST", "/v1/batch", headers, body.as_bytes())
    };
    assert_eq!(send(&[]).status, 401);
    assert_eq!(
        send(&[("authorization", "Bearer wrong-horse-battery")]).status,
        401
    );

    let response = send(&[("authorization", "Bearer correct-horse-battery")]);
    let body: Value = serde_json::from_slice(&response.body).expect("JSON");
    let answers = body["answers"].as_array().expect("a list");
    assert_eq!(statuses(answers), [403, 200, 403]);
    assert_eq!(answers[0]["body"]["code"], "not-permitted");
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    for sample in [
        r#"tollgate_requests_total{token="shop",result="accepted"} 1"#,
        r#"tollgate_requests_total{token="shop",result="forbidden"} 2"#,
    ] {
        assert!(page.contains(sample), "{sample}\n{page}");
    }
}

/// How many scripts the server has run.
fn script_calls(server: &Server) -> u64 {
    let Reply::Bulk(Some(stats)) = server.command(&["INFO", "commandstats"]) else {
        return 0;
    };
    let stats = String::from_utf8_lossy(&stats).into_owned();
    let calls = stats.lines().filter_map(|line| {
        let rest = line.strip_prefix("cmdstat_eval")?;
        let (_, rest) = rest.split_once("calls=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    calls.sum()
}

#[test]
fn a_batch_takes_one_script_call_and_keeps_its_order() {
    let server = Server::start(Flavor::Redis);
    let service = Tollgate::with_config(&format!(
        "store: {{type: redis, endpoints: ['{}'], timeout: 5s}}\n\
         defaults: {{on_store_failure: deny}}{LIMITS}",
        server.url()
    ));
    let check = |user: String| json!({"op": "check", "limits": [{"name": "api", "key": user}]});
    wait::until_true(PATIENCE, "the store to be reached", || {
        statuses(&batch(&service, &json!([check("first".into())]))) == [200]
    });

    let before = script_calls(&server);
    let users = (0..64).map(|number| check(format!("user-{number}")));
    let answers = batch(&service, &json!(users.collect::<Vec<_>>()));
    assert_eq!(statuses(&answers), [200; 64]);
    let calls = script_calls(&server) - before;
    assert!(calls <= 3, "64 checks took {calls} script calls");

    let answers = batch(&service, &json!(vec![check("ann".into()); 12]));
    let remaining = answers
        .iter()
        .map(|answer| &answer["body"]["limits"][0]["remaining"]);
    let remaining: Vec<u64> = remaining.filter_map(Value::as_u64).collect();
    assert_eq!(remaining, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]);
    assert_eq!(statuses(&answers)[9..], [200, 429, 429]);
}
