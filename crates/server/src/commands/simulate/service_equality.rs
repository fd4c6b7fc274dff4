//! Compares the simulator with the service: the same requests at the same times, over HTTP to the
//! service and as log lines to the simulator. Every number of every decision must be equal.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::dice::Dice;
use tollgate::{ManualClock, Micros, Outcome, Rule, Verdict};
use tollgate_gate::Gate;
use tollgate_rules::{Attribute, Config, StandingEffect};
use tollgate_simulate::{
    AccessLogFormat, ConfigReplay, LogFields, LogParser, ReplayDecision, ReplayRequest,
    StandingDemand,
};

use super::super::client;
use crate::http::HttpFront;
use crate::listen::{self, ListenLimits, ListenProtocol, PortLoad, ShutdownHandle};

/// All algorithms that can be replayed, tiers, costs, a shadow limit, optional keys, a limit
/// without a key, a lockout, and standing lists.
const CONFIG: &str = r#"
tiers:
  free: { capacity: 4, refill_rate: 1/s }
  pro: { capacity: 12, refill_rate: 3/s }
limits:
  - { name: net, key: [client_ip], algorithm: sliding_window, limit: 20, window: 10s, exempt: { keys: [{ client_ip: "2001:db8::1" }], networks: [198.51.100.0/24] } }
  - { name: first, match: { path: "/v1/**" }, key: [client_ip], algorithm: fixed_window, limit: 9, window: 7s, lockout: { after: 2, within: 30s, for: 9s, factor: 2, max: 40s } }
  - { name: clock, match: { method: [GET, PUT] }, key: [client_ip, user], algorithm: fixed_window, align: clock, limit: 30, window: 1m, optional: true, block: { keys: [{ client_ip: 198.51.100.2, user: ann }] } }
  - { name: login, match: { method: POST, path: /auth/login }, key: [client_ip, "query:email"], algorithm: sliding_log, limit: 3, window: 20s, optional: true, block: { networks: [203.0.113.0/24] }, exempt: { networks: [0.0.0.0/0, 203.0.113.0/28] } }
  - { name: plan, match: { path: "/v1/**" }, key: ["user | client_ip"], algorithm: token_bucket, tier: { by: tier, default: free } }
  - { name: pages, match: { path: /v1/reports }, key: [client_ip], algorithm: token_bucket, capacity: 6, refill_rate: 30/minute, cost: { by: pages, default: 1 } }
  - { name: meter, match: { host: "*.example.com" }, key: [host], algorithm: leaky_bucket, mode: meter, capacity: 15, leak_rate: 4/s }
  - { name: queue, match: { path: /export }, key: [], algorithm: leaky_bucket, mode: queue, capacity: 5, leak_rate: 2/s }
  - { name: agent, key: ["header:user-agent"], algorithm: sliding_window, limit: 12, window: 5s, shadow: true, optional: true }
"#;

const METHODS: [&str; 4] = ["GET", "get", "POST", "PUT"];
const PATHS: [&str; 7] = [
    "/v1/users",
    "//v1/./items/",
    "/v1/reports",
    "/auth/login",
    "/auth/%6Cogin?x=1",
    "/export",
    "/",
];
const CLIENTS: [&str; 5] = [
    "203.0.113.7",
    "198.51.100.2",
    "2001:db8::1",
    "2001:db8::2",
    "::ffff:203.0.113.7",
];
const HOSTS: [&str; 3] = ["api.example.com", "API.example.com:443", "other.org"];

/// A request with its time.
struct TestRequest {
    at: Micros,
    method: &'static str,
    path: &'static str,
    client: &'static str,
    host: Option<&'static str>,
    user: Option<&'static str>,
    email: Option<&'static str>,
    agent: Option<&'static str>,
    tier: Option<&'static str>,
    pages: Option<u64>,
}

fn one(dice: &mut Dice, some: &[&'static str]) -> &'static str {
    let one: &&'static str = dice.one_of(some);
    one
}

impl TestRequest {
    fn random(dice: &mut Dice, before: Micros) -> Self {
        // Mostly bursts, and now and then a pause longer than most windows.
        let quiet = if dice.chance(6) {
            25_000_000
        } else {
            *dice.one_of(&[0, 900, 40_000, 200_000, 600_000])
        };
        let maybe =
            |dice: &mut Dice, some: &[&'static str]| dice.chance(700).then(|| one(dice, some));
        Self {
            at: before.after(Micros::new(dice.below(quiet + 1))),
            method: one(dice, &METHODS),
            path: one(dice, &PATHS),
            client: one(dice, &CLIENTS),
            host: maybe(dice, &HOSTS),
            user: maybe(dice, &["ann", "bob \"the\" builder"]),
            email: maybe(dice, &["ann@example.com", "a+b%@x.org"]),
            agent: maybe(dice, &["curl/8.5", "Mozilla/5.0 (\\)"]),
            tier: maybe(dice, &["free", "pro", "none-such"]),
            pages: dice.chance(500).then(|| dice.between(0, 7)),
        }
    }

    /// The body of the check.
    fn body(&self) -> Value {
        let mut attributes =
            json!({ "client_ip": self.client, "method": self.method, "path": self.path });
        for (name, value) in [
            ("host", self.host.map(Value::from)),
            ("user", self.user.map(Value::from)),
            ("query:email", self.email.map(Value::from)),
            ("header:user-agent", self.agent.map(Value::from)),
            ("tier", self.tier.map(Value::from)),
            ("pages", self.pages.map(Value::from)),
        ] {
            if let Some(value) = value {
                attributes[name] = value;
            }
        }
        json!({ "attributes": attributes })
    }

    fn target(&self) -> String {
        let Some(email) = self.email else {
            return self.path.to_owned();
        };
        let email = email.replace('%', "%25").replace('+', "%2B");
        let sign = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{sign}email={email}", self.path)
    }

    /// The line that Caddy would log.
    fn json_line(&self) -> String {
        let line = json!({
            "ts": self.at.get(),
            "request": {
                "client_ip": self.client, "method": self.method, "uri": self.target(), "host": self.host,
                "headers": { "User-Agent": [self.agent.unwrap_or("")] },
            },
            "user_id": self.user.unwrap_or(""), "tier": self.tier, "pages": self.pages,
        });
        line.to_string()
    }

    /// The line that nginx would log.
    fn combined_line(&self) -> String {
        let time = tollgate_simulate::text::utc(self.at);
        let [year, month, day, clock] = [&time[..4], &time[5..7], &time[8..10], &time[11..19]];
        let month = ["Jan", "Feb"][usize::from(month == "02")];
        let escaped = |text: &str| text.replace('\\', "\\x5C").replace('"', "\\x22");
        let (user, agent) = (
            escaped(self.user.unwrap_or("-")),
            escaped(self.agent.unwrap_or("-")),
        );
        let (client, method, target) = (self.client, self.method, self.target());
        format!(
            r#"{client} - {user} [{day}/{month}/{year}:{clock} +0000] "{method} {target} HTTP/1.1" 200 0 "-" "{agent}""#
        )
    }

    /// The same request without what the combined format cannot express.
    fn in_combined(self) -> Self {
        let whole_second = Micros::from_secs(self.at.get() / 1_000_000);
        Self {
            at: whole_second,
            host: None,
            tier: None,
            pages: None,
            ..self
        }
    }
}

/// The service on a free port, with a manual clock.
struct TestService {
    clock: ManualClock,
    target: tollgate_load::Replica,
    _stopper: ShutdownHandle,
    _runtime: tokio::runtime::Runtime,
}

impl TestService {
    fn start(config: Config) -> Self {
        let clock = ManualClock::default();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let inside = runtime.enter();
        let gate = Arc::new(Gate::with_clock(&clock, config));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let front = Arc::new(HttpFront::new(gate, Arc::default(), address));
        let (stopper, stop) = ShutdownHandle::new();
        let minute = Duration::from_secs(60);
        let load = PortLoad::new(
            "http",
            ListenLimits {
                connections_max: 64,
                in_flight_max: 64,
                header_timeout: minute,
                idle_timeout: minute,
            },
        );
        runtime.spawn(listen::run(
            listener,
            ListenProtocol::Http1,
            Arc::default(),
            front,
            load,
            stop,
        ));
        let target = tollgate_load::Replica::from(address);
        drop(inside);
        Self {
            clock,
            target,
            _stopper: stopper,
            _runtime: runtime,
        }
    }

    /// The decision on a request at its time.
    fn check(&self, request: &TestRequest) -> Value {
        self.clock.set(request.at);
        let body = request.body();
        let answer = client::send(
            &self.target,
            Duration::from_secs(20),
            hyper::Method::POST,
            "/v1/check",
            Some(&body),
        );
        let answer = answer.expect("the service answers");
        answer.json().expect("the answer is JSON")
    }
}

/// A decision of the simulator in the form of the service's response, in the order of the file.
fn to_json(decision: &ReplayDecision<'_>) -> Value {
    let asked = decision.limits.iter().zip(decision.outcomes);
    let asked = asked.map(|(selected, outcome)| {
        (
            selected.limit.position(),
            asked_json(selected.limit, outcome),
        )
    });
    let listed = decision.standing.iter().map(|listed| {
        let position = listed.demand.limit.position();
        (position, listed_json(listed))
    });

    let mut limits: Vec<(usize, Value)> = asked.chain(listed).collect();
    limits.sort_by_key(|(position, _)| *position);
    let limits: Vec<Value> = limits.into_iter().map(|(_, limit)| limit).collect();
    json!({ "allowed": decision.is_allowed, "limits": limits })
}

fn asked_json(rule: &Rule, outcome: &Outcome) -> Value {
    let mut limit = json!({
        "name": rule.name().as_str(),
        "limit": outcome.limit,
        "remaining": outcome.remaining,
        "reset_after_ms": outcome.reset_after.get().div_ceil(1_000),
        "retry_after_ms": retry_ms(outcome),
    });
    for (name, holds) in [
        ("never", outcome.verdict == Verdict::Never),
        ("shadow", rule.is_shadow()),
        ("locked_out", outcome.lock.rest().is_some()),
    ] {
        if holds {
            limit[name] = true.into();
        }
    }
    limit
}

/// A limit that was not asked.
fn listed_json(listed: &StandingDemand<'_>) -> Value {
    let limit = listed.demand.quota().limit();
    let is_blocked = listed.effect == StandingEffect::Block;
    let mut body = json!({
        "name": listed.demand.limit.name().as_str(),
        "limit": limit,
        "remaining": if is_blocked { 0 } else { limit },
        "reset_after_ms": 0,
        "retry_after_ms": null,
    });
    if is_blocked {
        body["never"] = true.into();
        body["blocked"] = true.into();
    } else {
        body["exempt"] = true.into();
    }
    body
}

fn retry_ms(outcome: &Outcome) -> Option<u64> {
    match outcome.verdict {
        Verdict::Deny { retry_after } => Some(retry_after.get().div_ceil(1_000)),
        Verdict::Allow { .. } | Verdict::Never => None,
    }
}

fn config() -> Config {
    let parsed = Config::parse(CONFIG, "equal.yaml", &|_| None);
    parsed
        .map_err(|faults| faults.to_string())
        .expect("a right configuration")
}

/// Sends random requests to both. Returns the number of denied requests, and of denials by limits.
fn compare(
    seed: u64,
    requests: u64,
    change: fn(TestRequest) -> TestRequest,
    line: fn(&TestRequest) -> String,
) -> [u64; 2] {
    let (mut dice, config) = (Dice::new(seed), config());
    let names = ["user", "tier", "pages", "query:email", "header:user-agent"];
    let attributes: Vec<Attribute> = names
        .iter()
        .map(|name| name.parse().expect("a name"))
        .collect();
    let parser = LogParser::new(
        AccessLogFormat::Auto,
        LogFields::new(&attributes, &[]).expect("fields"),
    );
    let mut replay = ConfigReplay::new(&config);
    let service = TestService::start(config);
    let mut at = Micros::from_secs(1_798_761_600);
    let mut denied = [0; 2];
    let mut listed = [0; 2];
    for number in 1..=requests {
        let request = TestRequest::random(&mut dice, at);
        at = request.at;
        let request = change(request);
        let line = line(&request);
        let answer = service.check(&request);
        let record = parser
            .parse(line.as_bytes())
            .expect("a line of ours can be read");
        assert_eq!(record.time(), request.at, "{line}");
        let expected = json!({ "allowed": answer["allowed"], "limits": answer["limits"] });
        replay.decide(
            &[ReplayRequest {
                at: record.time(),
                duration: None,
                attributes: record,
                line: number,
            }],
            |_, result| {
                let decision = result.expect("a request of ours fits");
                assert_eq!(
                    to_json(&decision),
                    expected,
                    "seed {seed}, request {number}: {line}"
                );
                let by = decision
                    .outcomes
                    .iter()
                    .filter(|outcome| !outcome.verdict.is_allowed());
                denied[0] += u64::from(!decision.is_allowed);
                denied[1] += by.count() as u64;
                for standing in decision.standing {
                    listed[usize::from(standing.effect == StandingEffect::Block)] += 1;
                }
            },
        );
    }
    assert!(
        listed.iter().all(|count| *count > 20),
        "{listed:?}: nothing to compare"
    );
    denied
}

#[test]
fn a_log_of_json_is_decided_as_the_service_decides() {
    let [requests, limits] = compare(1, 1_200, |request| request, TestRequest::json_line);
    assert!(
        requests > 100 && requests < 1_100 && limits > requests,
        "{requests} {limits}: nothing to compare"
    );
}

#[test]
fn a_combined_log_is_decided_as_the_service_decides() {
    let [requests, _] = compare(2, 800, TestRequest::in_combined, TestRequest::combined_line);
    assert!(
        requests > 50 && requests < 750,
        "{requests}: nothing to compare"
    );
}
