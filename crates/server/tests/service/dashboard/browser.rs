//! The page in a real Chromium.

mod actions;
mod fleet;
mod looks;
mod many;
mod numbers;
mod outage;
mod token;

use testkit::browser::{Browser, Page};

use super::Counts;
use crate::harness::Tollgate;

const CONFIG: &str = r#"
hash_keys: ["header:x-api-key"]
hash_secret: not-so-secret-in-a-test
monitoring: { alerts: { deny_ratio: 0.5, latency_p99: 1s } }
limits:
  - { name: login, match: { path: /auth/login }, key: [client_ip, email],
      algorithm: sliding_log, limit: 3, window: 1h }
  - { name: plan, match: { path: "/v1/**" }, key: ["header:x-api-key | client_ip"],
      algorithm: token_bucket, capacity: 100000, refill_rate: 1/hour }
  - { name: quota, match: { path: "/v1/**" }, key: [tenant],
      algorithm: fixed_window, limit: 5, window: 1h, shadow: true }
"#;

const LOGIN: &str = r#"{"attributes": {"path": "/auth/login", "client_ip": "203.0.113.7",
    "email": "ann+x@example.com"}}"#;
const ORDERS: &str = r#"{"attributes": {"path": "/v1/orders", "client_ip": "203.0.113.7",
    "tenant": "acme", "header:x-api-key": "sk-live-0123456789"}}"#;

/// Opens the dashboard of a service and waits for the first numbers.
fn open<'b>(browser: &'b Browser, service: &Tollgate) -> Page<'b> {
    let page = browser.open(&format!("http://{}/", service.admin));
    page.until(
        "document.body.dataset.samples > 0 \
         && document.querySelectorAll('li.limit .rule').length > 0 \
         && document.querySelector('#pill-config').dataset.state !== 'wait'",
        "the first numbers",
    );
    page
}

/// The decisions of a limit, as shown on its card.
fn shown(page: &Page<'_>, limit: &str) -> Counts {
    numbers_of(
        page,
        &format!("[...document.querySelectorAll('li[data-limit=\"{limit}\"] .counts dd')]"),
    )
}

/// The decisions of a limit, as shown in the table.
fn shown_in_table(page: &Page<'_>, limit: &str) -> Counts {
    numbers_of(
        page,
        &format!("[...document.querySelectorAll('tr[data-limit=\"{limit}\"] td')].slice(1, 4)"),
    )
}

fn numbers_of(page: &Page<'_>, elements: &str) -> Counts {
    let found = page.eval(&format!(
        "{elements}.map((e) => Number(e.textContent.replaceAll(',', '')))"
    ));
    [0, 1, 2].map(|place| found[place].as_u64().expect("a number"))
}

/// How many samples the page has received.
fn samples(page: &Page<'_>) -> u64 {
    page.eval("Number(document.body.dataset.samples)")
        .as_u64()
        .expect("a number")
}
