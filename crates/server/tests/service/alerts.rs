//! Alerts at a real receiver: signed, delivered once or again, and never in the way.

mod evictions;
mod https;

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ring::hmac;
use serde_json::Value;
use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

const SECRET: &str = "a-webhook-secret-of-a-test";

/// What a request to the receiver contained.
#[derive(Clone)]
struct Delivery {
    line: String,
    signature: String,
    body: Vec<u8>,
}

impl Delivery {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn is_signed(&self) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let digits = self.signature.strip_prefix("sha256=").expect("a scheme");
        let byte = |index: usize| u8::from_str_radix(&digits[index..index + 2], 16);
        let tag: Vec<u8> = (0..digits.len())
            .step_by(2)
            .filter_map(|at| byte(at).ok())
            .collect();
        hmac::verify(&key, &self.body, &tag).is_ok()
    }
}

/// An HTTP server that records what it is sent. It answers with these statuses in turn, then 204.
struct Receiver {
    address: SocketAddr,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
}

impl Receiver {
    fn start(statuses: &'static [u16]) -> Self {
        Self::listen("127.0.0.1:0", statuses, |stream| stream)
    }

    /// A receiver at this address, on what `open` makes of a connection.
    fn listen<S: Read + Write>(
        address: &str,
        statuses: &'static [u16],
        open: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let deliveries: Arc<Mutex<Vec<Delivery>>> = Arc::default();

        let records = deliveries.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = open(stream.expect("a connection"));
                let Some(delivery) = read(&mut stream) else {
                    continue;
                };
                let mut records = records.lock().expect("not poisoned");
                let status = statuses.get(records.len()).unwrap_or(&204);
                records.push(delivery);
                drop(records);
                let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
                drop(stream.write_all(head.as_bytes()));
                drop(stream.flush());
            }
        });
        Self {
            address,
            deliveries,
        }
    }

    fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().expect("not poisoned").clone()
    }

    /// Waits for this many requests.
    fn wait_for(&self, count: usize) -> Vec<Delivery> {
        wait::until(PATIENCE, &format!("{count} deliveries"), || {
            Some(self.deliveries()).filter(|deliveries| deliveries.len() >= count)
        })
    }
}

fn read(stream: &mut impl Read) -> Option<Delivery> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;

    let (mut length, mut signature) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "x-tollgate-signature" => value.clone_into(&mut signature),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = line.trim().to_owned();
    Some(Delivery {
        line,
        signature,
        body,
    })
}

/// A service that sends its alerts to this address.
fn service(address: SocketAddr, alerts: &str, rest: &str) -> Tollgate {
    service_for(&format!("http://{address}"), alerts, rest, &[])
}

/// A service that sends its alerts to this host, with more variables.
fn service_for(host: &str, alerts: &str, rest: &str, variables: &[(&str, &str)]) -> Tollgate {
    let yaml = format!(
        "monitoring: {{ alerts: {{ {alerts}, webhook: {{ url: '{host}/alerts?team=a', \
         secret: \"${{HOOK_SECRET}}\" }} }} }}\n{rest}"
    );
    let variables = [&[("HOOK_SECRET", SECRET)], variables].concat();
    Tollgate::with(&yaml, &["--name", "edge-1"], &variables)
}

const NARROW: &str =
    "limits: [{ name: narrow, key: [user], algorithm: sliding_log, limit: 1, window: 1h }]";
const ANN: &str = r#"{"attributes": {"user": "ann@example.com"}}"#;

fn metric(service: &Tollgate, series: &str) -> Option<u64> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok())
}

fn deliveries(service: &Tollgate, result: &str) -> Option<u64> {
    let series = format!("tollgate_webhook_deliveries_total{{result=\"{result}\"}}");
    metric(service, &series)
}

#[test]
fn an_alert_is_sent_signed_when_it_fires() {
    let receiver = Receiver::start(&[]);
    let service = service(receiver.address, "deny_ratio: 0.5", NARROW);
    (0..40).for_each(|_| drop(service.check(ANN)));
    let sent = receiver.wait_for(1).remove(0);
    assert_eq!(sent.line, "POST /alerts?team=a HTTP/1.1");
    assert!(sent.is_signed(), "{}", sent.signature);

    let body = sent.json();
    assert_eq!(
        (&body["alert"], &body["status"], &body["limit"]),
        (&"deny_ratio".into(), &"firing".into(), &"narrow".into())
    );
    assert_eq!(
        (&body["replica"], &body["threshold"]),
        (&"edge-1".into(), &0.5.into())
    );
    assert!(
        body["value"].as_f64() > Some(0.9) && body["at_ms"].is_u64(),
        "{body}"
    );
    assert!(body.get("key").is_none(), "{body}");
    wait::until_true(PATIENCE, "the count", || {
        deliveries(&service, "delivered") == Some(1)
    });
    assert!(!service.log().contains(SECRET));
}

#[test]
fn a_key_near_its_limit_is_reported_once_and_never_in_clear_if_it_is_hashed() {
    let receiver = Receiver::start(&[]);
    let limits = "hash_keys: [user]\nhash_secret: not-so-secret-in-a-test\n\
        limits:\n\
        - { name: daily, key: [user], algorithm: fixed_window, limit: 5, window: 1d }\n\
        - { name: tenants, key: [tenant], algorithm: token_bucket, capacity: 5, \
            refill_rate: 1/hour, optional: true }\n\
        - { name: short, key: [user], algorithm: fixed_window, limit: 5, window: 1m }";
    let service = service(receiver.address, "near_limit: 1h", limits);
    let daily = r#"{"attributes": {"user": "ann@example.com"}, "limits": ["daily", "short"]}"#;
    (0..9).for_each(|_| drop(service.check(daily)));
    let tenant = r#"{"attributes": {"tenant": "acme"}, "limits": ["tenants"]}"#;
    (0..4).for_each(|_| drop(service.check(tenant)));

    let sent = receiver.wait_for(3);
    let mut told: Vec<(String, f64)> = Vec::new();
    for delivery in &sent {
        assert!(delivery.is_signed());
        let body = delivery.json();
        assert_eq!(
            (&body["alert"], &body["status"]),
            (&"near_limit".into(), &"once".into())
        );
        let limit = body["limit"].as_str().expect("a limit").to_owned();
        let part = &body["key"][0];
        if limit == "tenants" {
            assert_eq!(
                *part,
                serde_json::json!({"attribute": "tenant", "value": "acme",
                "hashed": false})
            );
        } else {
            assert_eq!(part["hashed"], true, "{body}");
            assert!(
                !String::from_utf8_lossy(&delivery.body).contains("ann@"),
                "{body}"
            );
        }
        told.push((limit, body["value"].as_f64().expect("a share")));
    }
    told.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let expected = [("daily", 0.8), ("daily", 1.0), ("tenants", 0.8)];
    assert_eq!(
        told,
        expected.map(|(limit, share)| (limit.to_owned(), share))
    );

    // Further denials in the same window are no news.
    (0..9).for_each(|_| drop(service.check(daily)));
    let series = "tollgate_near_limit_keys_total{limit=\"tenants\",percent=\"100\"}";
    drop(service.check(tenant));
    wait::until_true(PATIENCE, "the next report", || {
        metric(&service, series) == Some(1)
    });
    let series = "tollgate_near_limit_keys_total{limit=\"daily\",percent=\"100\"}";
    assert_eq!(metric(&service, series), Some(1));
    assert_eq!(receiver.wait_for(4).len(), 4);
    service.wait_for_log("a key is near the end of its limit");
    let log = service.log();
    assert!(!log.contains("acme") && !log.contains("ann@"), "{log}");
}

#[test]
fn a_failed_delivery_is_repeated_and_a_refused_one_is_not() {
    let receiver = Receiver::start(&[500, 204]);
    let repeated = service(receiver.address, "deny_ratio: 0.5", NARROW);
    (0..40).for_each(|_| drop(repeated.check(ANN)));
    let sent = receiver.wait_for(2);
    assert_eq!(sent[0].body, sent[1].body, "the same alert");
    wait::until_true(PATIENCE, "the count", || {
        deliveries(&repeated, "delivered") == Some(1)
    });
    assert_eq!(deliveries(&repeated, "attempt_failed"), Some(1));

    let receiver = Receiver::start(&[404]);
    let refused = service(receiver.address, "deny_ratio: 0.5", NARROW);
    (0..40).for_each(|_| drop(refused.check(ANN)));
    wait::until_true(PATIENCE, "the count", || {
        deliveries(&refused, "failed") == Some(1)
    });
    assert_eq!(receiver.deliveries().len(), 1);
    refused.wait_for_log("cannot be delivered to the webhook: the receiver responded with status");
    assert!(
        !refused.log().contains("/alerts?team=a"),
        "the URL may be secret"
    );
}

#[test]
fn a_receiver_that_is_down_delays_nothing() {
    // A port that is free again.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = listener.local_addr().expect("it is bound");
    drop(listener);

    let mut service = service(closed, "deny_ratio: 0.5", NARROW);
    (0..40).for_each(|_| drop(service.check(ANN)));
    wait::until_true(PATIENCE, "an attempt", || {
        deliveries(&service, "attempt_failed") >= Some(1)
    });
    assert_eq!(service.check(ANN).status, 429);
    assert_eq!(deliveries(&service, "failed"), Some(0), "it is still tried");
    service.signal("TERM");
    assert!(
        service.wait_for_exit().success(),
        "the shutdown does not wait for it"
    );
}

#[test]
fn an_outage_and_different_configurations_fire_and_are_resolved() {
    let receiver = Receiver::start(&[]);
    let store = Server::start(Flavor::Redis);
    let rest = format!(
        "store: {{ type: redis, endpoints: ['{}'], timeout: 250ms }}\n{NARROW}",
        store.url()
    );
    let alerts = "degraded_for: 1s, configurations_differ: 1s";
    let first = service(receiver.address, alerts, &rest);
    let other = Tollgate::with_config(&rest);
    let find = |alert: &str, status: &str| {
        wait::until(PATIENCE, &format!("{alert} {status}"), || {
            let sent = receiver.deliveries();
            let mut bodies = sent.iter().map(Delivery::json);
            bodies.find(|body| body["alert"] == alert && body["status"] == status)
        })
    };
    find("configurations_differ", "firing");
    drop(other);
    find("configurations_differ", "resolved");

    store.kill();
    let fired = find("degraded_for", "firing");
    assert!(fired["value"].as_f64() >= Some(1.0), "{fired}");
    first.wait_for_log("alert firing: limits have used their failure policies for too long");
    store.restart();
    find("degraded_for", "resolved");
}
