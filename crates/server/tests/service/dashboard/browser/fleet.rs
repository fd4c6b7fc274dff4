//! The fleet on the page.

use testkit::browser::Browser;
use testkit::servers::{Flavor, Server};

use super::open;
use crate::harness::Tollgate;

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;

#[test]
fn the_page_shows_all_replicas_and_what_is_wrong_with_them() {
    let store = Server::start(Flavor::Redis);
    let config = format!(
        "store: {{type: redis, endpoints: ['{}'], timeout: 250ms}}\n\
         defaults: {{expected_replicas: 2}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: 3, window: 1h}}]",
        store.url()
    );
    let hostile = "<img src=x onerror=alert(1)>";
    let services = ["first", hostile].map(|name| Tollgate::with(&config, &["--name", name], &[]));
    let browser = Browser::start();
    let page = open(&browser, &services[0]);
    page.until(
        "document.querySelectorAll('#fleet-table tbody tr').length === 2",
        "both replicas",
    );
    assert_eq!(page.text("#replica"), "first");
    assert_eq!(page.text("#pill-fleet"), "one of 2 replicas");
    assert!(page.text("#fleet-table").contains(hostile), "as text");
    assert_eq!(
        page.eval("document.querySelector('#fleet-findings').children.length"),
        0
    );
    assert_eq!(
        page.eval("document.querySelector('#notices').children.length"),
        0
    );

    // Each replica shows the decisions of both.
    (0..4).for_each(|_| drop(services[1].check(ANN)));
    page.until(
        "document.querySelector('#fleet-allowed').textContent === '3'",
        "the sums",
    );
    assert_eq!(page.text("#fleet-denied"), "1");
    assert_eq!(
        page.text("#rate-allowed"),
        "0/s",
        "this replica decided nothing"
    );

    services[1].rewrite_config(&config.replace("limit: 3", "limit: 4"));
    page.until(
        "document.querySelector('#notices').textContent \
         .includes('Replicas have different configurations.')",
        "the difference",
    );
    assert_eq!(
        page.eval("document.querySelector('#pill-fleet').dataset.state"),
        "bad"
    );

    store.kill();
    page.until(
        "document.querySelector('#fleet-age').textContent.startsWith('as of ')",
        "the age of what is shown",
    );
    assert_eq!(
        page.eval("document.querySelectorAll('#fleet-table tbody tr').length"),
        2
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_memory_store_is_said_to_count_alone() {
    let service = Tollgate::start();
    let browser = Browser::start();
    let page = open(&browser, &service);
    assert_eq!(page.text("#pill-fleet"), "counts alone");
    assert!(
        page.text("#fleet-findings")
            .contains("memory store: each replica counts alone")
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}
