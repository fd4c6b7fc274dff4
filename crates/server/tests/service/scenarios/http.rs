//! The columns `http` and `batch`: the JSON API, one request at a time or in a batch.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Value, json};
use testkit::reverse_proxy;

use super::table::{Answer, Operation};
use super::{Call, Front, Seen, WRONG_TOKEN, override_key, service_counts};
use crate::harness::Tollgate;

/// How an operation of the API is sent. Returns its status and body.
pub(super) trait Transport {
    fn send(service: &Tollgate, operation: &str, body: &Value) -> (u16, Value);
}

pub(super) struct Http;
pub(super) struct Batch;

fn post(service: &Tollgate, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("x-tollgate-token", WRONG_TOKEN)];
    let body = body.to_string();
    let response = reverse_proxy::send(service.http, "POST", path, &headers, body.as_bytes());
    let body = serde_json::from_slice(&response.body).expect("JSON");
    (response.status, body)
}

impl Transport for Http {
    fn send(service: &Tollgate, operation: &str, body: &Value) -> (u16, Value) {
        post(service, &format!("/v1/{operation}"), body)
    }
}

impl Transport for Batch {
    fn send(service: &Tollgate, operation: &str, body: &Value) -> (u16, Value) {
        let mut request = body.clone();
        request["op"] = operation.into();
        let (status, body) = post(service, "/v1/batch", &json!({"requests": [request]}));
        let answer = &body["answers"][0];
        match answer["status"].as_u64() {
            Some(status) => (
                u16::try_from(status).expect("a status"),
                answer["body"].clone(),
            ),
            None => (status, body),
        }
    }
}

pub(super) struct JsonFront<'s, T> {
    service: &'s Tollgate,
    /// The permit or the reservation of the scenario.
    token: Value,
    transport: PhantomData<T>,
}

impl<'s, T: Transport> JsonFront<'s, T> {
    pub(super) const fn new(service: &'s Tollgate) -> Self {
        Self {
            service,
            token: Value::Null,
            transport: PhantomData,
        }
    }

    fn decide(&mut self, operation: &str, call: Call<'_>, token: &str) -> Seen {
        let mut request = body(call);
        let fields = [
            ("ttl", call.step.ttl.clone().map(Value::from)),
            ("tokens", call.step.tokens.clone()),
            ("cost", call.step.cost.map(Value::from)),
            (
                "count",
                (call.step.operation == Operation::Count).then(|| true.into()),
            ),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                request[name] = value;
            }
        }
        let (status, answer) = T::send(self.service, operation, &request);
        if !token.is_empty() {
            self.token = answer[token].clone();
        }
        if call.step.operation == Operation::Count && status == 200 {
            return Seen::new(Answer::Done, answer.to_string());
        }
        decision(status, &answer)
    }

    fn settle(&self, operation: &str, call: Call<'_>) -> Seen {
        let mut request = json!({"reservation": self.token});
        if let Some(actual) = call.step.actual {
            request["actual"] = actual.into();
        }
        if let Some(tokens) = &call.step.tokens {
            request["tokens"] = tokens.clone();
        }
        let (status, answer) = T::send(self.service, operation, &request);
        let mut seen = done(status, &answer);
        seen.charged = answer["charged"].as_u64();
        seen.reservation = answer["reservation"].as_str().map(str::to_owned);
        seen
    }
}

impl<T: Transport> Front for JsonFront<'_, T> {
    fn call(&mut self, call: Call<'_>) -> Seen {
        match call.step.operation {
            Operation::Check | Operation::Count => self.decide("check", call, ""),
            Operation::Acquire => self.decide("check", call, "permit"),
            Operation::Reserve => self.decide("reserve", call, "reservation"),
            Operation::Settle => self.settle("settle", call),
            Operation::Cancel => self.settle("cancel", call),
            Operation::Release => {
                let (status, answer) =
                    T::send(self.service, "release", &json!({"permit": self.token}));
                done(status, &answer)
            }
            Operation::Refund => {
                let mut request = body(call);
                request["cost"] = json!(call.step.cost);
                let (status, answer) = T::send(self.service, "refund", &request);
                done(status, &answer)
            }
            Operation::Garbage => {
                let mut request = body(call);
                request["cost"] = "many".into();
                let (status, answer) = T::send(self.service, "check", &request);
                decision(status, &answer)
            }
            Operation::Override => override_key(self.service, call),
            Operation::Await => Seen::done(),
        }
    }

    fn used(&mut self, call: Call<'_>) -> BTreeMap<String, u64> {
        used(self.service, call)
    }

    fn counts(&mut self) -> BTreeMap<String, u64> {
        service_counts(self.service)
    }
}

/// The units used of each limit that the request selects.
pub(super) fn used(service: &Tollgate, call: Call<'_>) -> BTreeMap<String, u64> {
    let mut request = body(call);
    request["cost"] = 0.into();
    let (status, answer) = post(service, "/v1/peek", &request);
    assert!(matches!(status, 200 | 429), "{answer}");
    let limits = answer["limits"].as_array().expect("a list").iter();
    let used = limits.filter_map(|limit| {
        let name = limit["name"].as_str().expect("a name").to_owned();
        limit["used"].as_u64().map(|used| (name, used))
    });
    used.collect()
}

fn body(call: Call<'_>) -> Value {
    let Some(inline) = &call.scenario.inline else {
        return json!({"attributes": call.attributes()});
    };
    let mut limit = inline.clone();
    limit["key"] = call.user.into();
    json!({"limits": [limit]})
}

fn done(status: u16, answer: &Value) -> Seen {
    let is = if status == 200 {
        Answer::Done
    } else {
        Answer::Error
    };
    Seen::new(is, answer.to_string())
}

/// What the body of a decision tells.
fn decision(status: u16, answer: &Value) -> Seen {
    let Some(allowed) = answer["allowed"].as_bool() else {
        assert!(matches!(status, 400..=499), "{status} {answer}");
        return Seen::new(Answer::Error, answer.to_string());
    };
    let (is, statuses) = if allowed {
        (Answer::Allowed, [200, 200])
    } else {
        (Answer::Denied, [429, 503])
    };
    assert!(statuses.contains(&status), "{status} {answer}");

    let limits = answer["limits"].as_array().expect("a list");
    let number = |limit: &Value, name: &str| limit[name].as_u64().expect("a number");
    let told = limits.iter().map(|limit| {
        let name = limit["name"].as_str().expect("a name").to_owned();
        (name, (number(limit, "limit"), number(limit, "remaining")))
    });
    let retry_ms = limits.iter().filter(|limit| limit["shadow"] != true);
    let retry_ms = retry_ms
        .filter_map(|limit| limit["retry_after_ms"].as_u64())
        .max();
    Seen {
        degraded: answer["degraded"].as_bool(),
        told: Some(told.collect()),
        retry_s: retry_ms.map(|ms| ms.div_ceil(1_000)),
        ..Seen::new(is, answer.to_string())
    }
}
