//! An operator blocks a key on the page of one replica, sees it refused at another, and undoes it.

use testkit::browser::{Browser, Page};
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::open;
use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;

fn fill(page: &Page<'_>, selector: &str, text: &str) {
    page.eval(&format!(
        "(() => {{ const e = document.querySelector('{selector}'); e.value = '{text}'; \
         e.dispatchEvent(new Event('input', {{ bubbles: true }})); return true; }})()"
    ));
}

#[test]
fn a_key_blocked_on_one_page_is_refused_at_another_replica() {
    let server = Server::start(Flavor::Redis);
    let config = format!(
        "store: {{type: redis, endpoints: ['{}'], timeout: 250ms}}\n\
         limits: [{{name: api, key: [client_ip], algorithm: sliding_log, limit: 100, window: 1h}}]",
        server.url()
    );
    let [here, there] = [(); 2].map(|()| Tollgate::with_config(&config));
    let browser = Browser::start();
    let page = open(&browser, &here);
    assert_eq!(there.check(ANN).status, 200);

    let has_field = "document.querySelector('#key-parts input') !== null";
    page.until(has_field, "the fields of the key");
    fill(&page, "#key-parts input", "203.0.113.7");
    fill(&page, "#act-reason", "scraping");
    fill(&page, "#act-by", "ann");
    page.eval("document.querySelector('#act').click()");
    page.until(
        "document.querySelector('#actions tbody tr')?.textContent.includes('scraping')",
        "the block in the list",
    );
    wait::until_true(PATIENCE, "the block at the other replica", || {
        there.check(ANN).status == 429
    });

    assert_eq!(page.complaints(), Vec::<String>::new());
    page.go(&format!("http://{}/", there.admin));
    page.until(
        "document.querySelector('#actions tbody tr button') !== null",
        "the block on the page of the other replica",
    );
    // By its event: what is above the button may still grow, and move it under the pointer.
    page.eval("document.querySelector('#actions tbody tr button').click()");
    wait::until_true(PATIENCE, "the end of the block", || {
        here.check(ANN).status == 200 && there.check(ANN).status == 200
    });
    page.until(
        "document.querySelector('#actions tbody tr') === null",
        "an empty list",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}
