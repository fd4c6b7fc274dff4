//! One table of scenarios for every front: the same request gets the same decision, the same charge,
//! the same numbers and the same metrics, whichever way it comes in.
//!
//! `table.json` has the scenarios, and why a front cannot express some of them. Each front is a
//! column, a type that implements `Front`: whoever adds a front adds a column. The columns `node` and
//! `node-http` run in `clients/node/test/scenarios.test.ts`, on the same file.

mod forward_auth;
mod grpc;
mod http;
mod resp;
mod seen;
mod table;
mod tower;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use self::forward_auth::ForwardAuth;
use self::grpc::Grpc;
use self::http::{Batch, Http, JsonFront};
use self::resp::Resp;
use self::seen::Seen;
use self::table::{Operation, Scenario, Step, StoreState, Table};
use self::tower::Tower;
use crate::harness::{PATIENCE, Tollgate};

/// The header that a scenario's limits match, and the one that they count by.
const SCENARIO: &str = "x-scenario";
const USER: &str = "x-user";
/// The wrong token that clients of a guarded service send.
const WRONG_TOKEN: &str = "wrong";

/// The columns that run here. `clients/node` runs the others.
const COLUMNS: [&str; 6] = ["http", "batch", "forward-auth", "grpc", "resp", "tower"];
const NODE_COLUMNS: [&str; 2] = ["node", "node-http"];

/// One call of a scenario.
#[derive(Clone, Copy, Debug)]
struct Call<'c> {
    scenario: &'c Scenario,
    step: &'c Step,
    user: &'c str,
}

impl Call<'_> {
    /// The attributes of the request, with the names of the configuration file.
    fn attributes(&self) -> BTreeMap<String, String> {
        let mut attributes = self.step.with.clone();
        attributes.insert(format!("header:{SCENARIO}"), self.scenario.name.clone());
        if !self.step.anonymous {
            attributes.insert(format!("header:{USER}"), self.user.to_owned());
        }
        attributes
    }

    /// The same as headers of a request.
    fn headers(&self) -> Vec<(String, String)> {
        let attributes = self.attributes().into_iter();
        let headers = attributes.map(|(name, value)| (name.replace("header:", ""), value));
        headers.collect()
    }
}

/// A column: a way to ask, and what can be seen of the counters behind it.
trait Front {
    /// Carries out the operation and returns what the client sees.
    fn call(&mut self, call: Call<'_>) -> Seen;

    /// The units used of each limit of the scenario.
    fn used(&mut self, call: Call<'_>) -> BTreeMap<String, u64>;

    /// How often each limit came to each outcome, by `limit outcome source`.
    fn counts(&mut self) -> BTreeMap<String, u64>;
}

/// The configuration of a service with the limits of these scenarios.
fn config(table: &Table, scenarios: &[&Scenario], store: &Value, server: &Value) -> String {
    let limits = scenarios.iter().flat_map(|scenario| {
        scenario.limits.iter().map(|limit| {
            let mut limit = limit.clone();
            limit["match"] = json!({ format!("header:{SCENARIO}"): scenario.name });
            if limit.get("key").is_none() {
                limit["key"] = json!([format!("header:{USER}")]);
            }
            limit
        })
    });
    let limits: Vec<Value> = limits.collect();
    json!({"version": 1, "tiers": table.tiers, "store": store, "server": server, "limits": limits})
        .to_string()
}

/// What the admin port reports of the decisions.
fn service_counts(service: &Tollgate) -> BTreeMap<String, u64> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let lines = page.lines().filter_map(|line| {
        let labels = line.strip_prefix("tollgate_decisions_total{")?;
        let (labels, count) = labels.split_once("} ")?;
        let values: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
        let count = count.parse::<u64>().ok().filter(|count| *count > 0)?;
        Some((values.join(" "), count))
    });
    lines.collect()
}

/// Replaces the numbers of the key, as an operator does.
fn override_key(service: &Tollgate, call: Call<'_>) -> Seen {
    let action = json!({"limit": call.scenario.name, "key": {format!("header:{USER}"): call.user},
        "quota": {"limit": call.step.limit}, "for": "1h", "reason": "a test", "by": "ann"});
    let path = "/admin/overrides?wait=10s";
    let body = action.to_string();
    let response = reverse_proxy::send(service.admin, "POST", path, &[], body.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    Seen::done()
}

/// Runs one scenario through one column. Returns what differs from the table.
fn differences(front: &mut dyn Front, scenario: &Scenario, column: &str) -> Vec<String> {
    let own = format!("{}-{column}", scenario.name);
    let user = scenario.user.as_deref().unwrap_or(&own);
    let mut differences = Vec::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let call = Call {
            scenario,
            step,
            user,
        };
        let before = front.counts();
        let seen = match step.operation {
            Operation::Await => Seen::done(),
            _ => front.call(call),
        };
        let mut found = seen.differences(step);
        found.extend(counted(&before, &front.counts(), step));
        if let Some(expected) = &step.used {
            let is_right = |used: &BTreeMap<String, u64>| used == expected;
            if step.operation == Operation::Await {
                wait::within(PATIENCE, || Some(front.used(call)).filter(is_right));
            }
            let found_used = front.used(call);
            if !is_right(&found_used) {
                found.push(format!("used {found_used:?}, expected {expected:?}"));
            }
        }
        let place = format!("{} {column} step {}", scenario.name, number + 1);
        differences.extend(found.iter().map(|text| format!("{place}: {text}")));
    }
    differences
}

/// Compares the decisions that were counted with those of the step.
fn counted(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    step: &Step,
) -> Option<String> {
    let new = after.iter().flat_map(|(name, count)| {
        let earlier = before.get(name).copied().unwrap_or_default();
        (earlier..*count).map(|_| name.clone())
    });
    let new: Vec<String> = new.collect();
    (new != step.counted).then(|| format!("counted {new:?}, expected {:?}", step.counted))
}

/// Runs the scenarios of these stores through every column.
fn run(state: StoreState, store: &Value, redis: Option<&Server>) {
    let table = Table::read();
    let scenarios: Vec<&Scenario> = table.with_store(state).collect();
    let server = match state {
        StoreState::Guarded => json!({"tokens": [{"name": "app", "token": "a-token-of-the-test"}]}),
        StoreState::Running | StoreState::Down => json!({}),
    };
    let service = Tollgate::with_resp(&config(&table, &scenarios, store, &server));
    if redis.is_some() {
        wait::until_true(PATIENCE, "the service to reach the store", || {
            let status = reverse_proxy::get(service.admin, "/metrics", &[]).text();
            status.contains("\ntollgate_store_up 1")
        });
    }

    let mut fronts: [Box<dyn Front>; COLUMNS.len()] = [
        Box::new(JsonFront::<Http>::new(&service)),
        Box::new(JsonFront::<Batch>::new(&service)),
        Box::new(ForwardAuth::new(&service)),
        Box::new(Grpc::new(&service)),
        Box::new(Resp::new(&service)),
        Box::new(Tower::new(&scenarios, store)),
    ];
    let (mut found, mut cells) = (Vec::new(), 0);
    for scenario in &scenarios {
        for (front, column) in fronts.iter_mut().zip(COLUMNS) {
            if table.obstacle(scenario, column).is_some() {
                continue;
            }
            cells += 1;
            found.extend(differences(front.as_mut(), scenario, column));
        }
    }
    println!("{cells} cells of {} scenarios", scenarios.len());
    assert!(cells > 0);

    let wrong = found
        .iter()
        .filter(|text| table.pending_entry(text).is_none());
    let mut wrong: Vec<String> = wrong.cloned().collect();
    let seen: BTreeSet<&str> = found
        .iter()
        .filter_map(|text| table.pending_entry(text))
        .collect();
    println!("pending: {seen:?}");
    let names: Vec<&str> = scenarios.iter().map(|scenario| &*scenario.name).collect();
    let is_run = |entry: &&String| names.contains(&entry.split(' ').next().unwrap_or_default());
    let repaired = table.pending.keys().filter(is_run);
    let repaired = repaired.filter(|entry| !seen.contains(entry.as_str()));
    wrong.extend(repaired.map(|entry| format!("{entry} is no longer pending: remove it")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_front_decides_the_same_in_memory() {
    run(StoreState::Running, &json!({"type": "memory"}), None);
}

#[test]
fn every_front_decides_the_same_on_redis() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let store = json!({"type": "redis", "endpoints": [server.url()], "timeout": "5s"});
        run(StoreState::Running, &store, Some(&server));
    }
}

#[test]
fn every_front_applies_the_failure_policy() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
    let url = format!("redis://{}", closed.expect("a free port"));
    let store = json!({"type": "redis", "endpoints": [url]});
    run(StoreState::Down, &store, None);
}

#[test]
fn every_front_rejects_a_wrong_token() {
    run(StoreState::Guarded, &json!({"type": "memory"}), None);
}

/// Every cell is run or explained, and every explanation is needed.
#[test]
fn every_cell_of_the_table_is_run_or_explained() {
    let table = Table::read();
    let columns: BTreeSet<&str> = COLUMNS.into_iter().chain(NODE_COLUMNS).collect();
    let explained: BTreeSet<&str> = table.cannot.keys().map(String::as_str).collect();
    assert_eq!(
        explained, columns,
        "each column says what it cannot express"
    );

    let features: BTreeSet<&str> = table
        .scenarios
        .iter()
        .flat_map(Scenario::features)
        .collect();
    for (column, reasons) in &table.cannot {
        for (feature, reason) in reasons {
            assert!(
                features.contains(feature.as_str()),
                "{column}: {feature} is not in use"
            );
            assert!(reason.len() > 10, "{column}: {feature} needs a reason");
        }
        let runs = |scenario: &&Scenario| table.obstacle(scenario, column).is_none();
        let run = table.scenarios.iter().filter(runs).count();
        println!("{column}: {run} of {} scenarios", table.scenarios.len());
        assert!(run > 5, "{column} runs only {run} scenarios");
    }

    let names: BTreeSet<&str> = table
        .scenarios
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names.len(), table.scenarios.len(), "names are unique");
    for (name, reason) in &table.pending {
        let scenario = name.split(' ').next().unwrap_or_default();
        assert!(
            names.contains(scenario),
            "pending: there is no scenario {name}"
        );
        assert!(reason.len() > 10, "pending: {name} needs a reason");
    }
}
