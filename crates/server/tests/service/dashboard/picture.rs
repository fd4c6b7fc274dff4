//! The screenshots of the dashboard, taken by `cargo xtask picture dashboard`: a service on a
//! temporary Redis, with some minutes of traffic, an attack and an outage.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use testkit::browser::{Browser, Scheme};
use testkit::dice::Dice;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::harness::Tollgate;
use crate::load::{Connection, Ends};

/// The variable with the directory for the screenshots.
const PLACE: &str = "TOLLGATE_PICTURES";
/// The variable with the duration of the run in seconds.
const LENGTH: &str = "TOLLGATE_PICTURE_SECONDS";
const LENGTH_USUAL: u64 = 300;
/// The time between two steps of a client.
const STEP: Duration = Duration::from_millis(40);
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 1100;

const LIMITS: &str = r#"
# A client may be quiet for minutes and then ask on the same connection.
server: { idle_timeout: 10m }
defaults: { on_store_failure: local, expected_replicas: 1 }
hash_keys: ["header:x-api-key"]
hash_secret: only-for-a-picture
tiers:
  free: { capacity: 60, refill_rate: 12/s }
  pro: { capacity: 300, refill_rate: 90/s }
monitoring: { alerts: { deny_ratio: 0.6, latency_p99: 20ms } }
limits:
  - { name: login, match: { path: /auth/login }, key: [client_ip],
      algorithm: sliding_log, limit: 12, window: 1m, on_store_failure: deny }
  - { name: plan, match: { path: "/v1/**" }, key: ["header:x-api-key | client_ip"],
      algorithm: token_bucket, tier: { by: tier, default: free } }
  - { name: ip-safety-net, key: [client_ip],
      algorithm: token_bucket, capacity: 400, refill_rate: 120/s, consistency: leased }
  - { name: search, match: { path: /v1/search }, key: [tenant],
      algorithm: sliding_window, limit: 500, window: 10s }
  - { name: reports, match: { path: "/v1/reports/**" }, key: [tenant],
      algorithm: token_bucket, capacity: 5, refill_rate: 30/minute }
  - { name: daily-quota, match: { path: "/v1/**" }, key: [tenant],
      algorithm: fixed_window, align: clock, limit: 5000, window: 1d, shadow: true }
"#;

/// A kind of client, and its average requests per step, by how much of the run has passed (0 to 1).
struct Client {
    body: fn(&mut Dice) -> String,
    rate: fn(f64) -> f64,
}

const CLIENTS: [Client; 6] = [
    Client {
        body: browse,
        rate: |x| {
            if (0.25..0.4).contains(&x) {
                6.5
            } else {
                2.6 + 0.6 * (x * 7.0).sin()
            }
        },
    },
    Client {
        body: search,
        rate: |x| 1.6 + 0.7 * (x * 9.0).sin(),
    },
    Client {
        body: list,
        rate: |x| 1.9 + 0.5 * (x * 5.0 + 1.0).cos(),
    },
    Client {
        body: report,
        rate: |x| if (0.3..0.5).contains(&x) { 0.4 } else { 0.06 },
    },
    Client {
        body: login,
        rate: |_| 0.12,
    },
    Client {
        body: stuffing,
        rate: |x| if x > 0.6 { 3.0 } else { 0.0 },
    },
];

fn tenant(dice: &mut Dice) -> &'static str {
    ["acme", "globex", "initech", "umbrella"][usize::try_from(dice.below(4)).unwrap_or(0)]
}

fn check(address: u64, path: &str, tenant: &str, more: &str) -> String {
    format!(
        r#"{{"attributes": {{"client_ip": "203.0.113.{address}", "path": "{path}",
            "tenant": "{tenant}"{more}}}}}"#
    )
}

fn search(dice: &mut Dice) -> String {
    let key = dice.below(3);
    let tier = if key == 0 { "free" } else { "pro" };
    let more = format!(r#", "header:x-api-key": "sk-{key}", "tier": "{tier}""#);
    check(20 + dice.below(30), "/v1/search", tenant(dice), &more)
}

/// Most of it from one office, behind one address.
fn browse(dice: &mut Dice) -> String {
    let address = if dice.chance(900) {
        40
    } else {
        41 + dice.below(4)
    };
    check(address, "/", tenant(dice), "")
}

fn list(dice: &mut Dice) -> String {
    check(60 + dice.below(60), "/v1/orders", tenant(dice), "")
}

fn report(dice: &mut Dice) -> String {
    check(130 + dice.below(9), "/v1/reports/monthly", tenant(dice), "")
}

fn login(dice: &mut Dice) -> String {
    check(150 + dice.below(60), "/auth/login", tenant(dice), "")
}

fn stuffing(dice: &mut Dice) -> String {
    check(7 + dice.below(3), "/auth/login", "acme", "")
}

/// Sends requests at the rate of the client until the run is over.
fn send_requests(
    service: &Tollgate,
    client: &Client,
    seed: u64,
    length: Duration,
    is_over: &AtomicBool,
) {
    let mut dice = Dice::new(seed);
    let mut connection = Connection::open(service.http).expect("the service listens");
    let began = wait::now();
    let mut due = 0.0;
    while !is_over.load(Relaxed) {
        pause(STEP);
        due += (client.rate)(began.elapsed().as_secs_f64() / length.as_secs_f64());
        while due >= 1.0 {
            due -= 1.0;
            connection
                .check(&(client.body)(&mut dice))
                .expect("the service answers");
        }
    }
}

fn pause(length: Duration) {
    wait::within(length, || None::<()>);
}

#[test]
#[ignore = "takes minutes and makes a picture; `cargo xtask picture dashboard` runs it"]
fn picture() {
    let place = PathBuf::from(std::env::var_os(PLACE).expect("TOLLGATE_PICTURES is set"));
    let seconds = std::env::var(LENGTH)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(LENGTH_USUAL);
    let length = Duration::from_secs(seconds);
    let store = Server::start(Flavor::Redis);
    let config = format!(
        "store: {{ type: redis, endpoints: [\"{}\"], timeout: 1s }}{LIMITS}",
        store.url()
    );
    let service = Tollgate::with_config(&config);
    let browser = Browser::start();
    let page = browser.open(&format!("http://{}/", service.admin));
    page.resize(WIDTH, HEIGHT, 1.0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _also_when_it_fails = Ends(&is_over);
        for (seed, client) in (1..).zip(&CLIENTS) {
            let (service, is_over) = (&service, &is_over);
            scope.spawn(move || send_requests(service, client, seed, length, is_over));
        }
        pause(length.mul_f64(0.42));
        store.kill();
        pause(length.mul_f64(0.04));
        store.restart();
        pause(length.mul_f64(0.54));
        for (scheme, name) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
            page.prefer(scheme);
            page.until(
                "document.body.dataset.live === 'true'",
                "the page to be live",
            );
            // The colours are drawn with the next sample at the latest.
            pause(Duration::from_millis(1_500));
            std::fs::write(
                place.join(format!("dashboard-{name}.png")),
                page.screenshot(),
            )
            .expect("a writable directory");
        }
    });
    assert_eq!(page.complaints(), Vec::<String>::new());
}
