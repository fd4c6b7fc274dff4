//! Two hundred limits, and a small screen.

use testkit::browser::{Browser, Page};

use super::open;
use crate::harness::Tollgate;

const LIMITS: usize = 200;

fn config() -> String {
    let limit = |number: usize| {
        format!(
            "  - {{ name: team-{number:03}-of-a-department-with-a-long-name, \
             match: {{ team: \"{number}\" }}, \
             key: [client_ip, \"header:x-a-rather-long-header-name | tenant\"], \
             algorithm: sliding_log, limit: 2, window: 1h }}\n"
        )
    };
    format!("limits:\n{}", (0..LIMITS).map(limit).collect::<String>())
}

fn check(service: &Tollgate, team: usize, times: usize) {
    let body = format!(
        r#"{{"attributes": {{"team": "{team}", "client_ip": "2001:db8:1234:5678::7",
            "tenant": "acme"}}}}"#
    );
    (0..times).for_each(|_| drop(service.check(&body)));
}

fn expect_no_sideways_scrolling(page: &Page<'_>, what: &str) {
    let widths = page.eval("[document.documentElement.scrollWidth, innerWidth]");
    assert_eq!(widths[0], widths[1], "{what}");
}

#[test]
fn two_hundred_limits_are_filtered_sorted_and_drawn_only_if_visible() {
    let service = Tollgate::with_config(&config());
    let browser = Browser::start();
    let page = open(&browser, &service);
    page.resize(1280, 900, 1.0);
    (0..LIMITS).for_each(|team| check(&service, team, 1));
    check(&service, 123, 9);
    page.until(
        &format!("document.querySelectorAll('li.limit:not([hidden])').length === {LIMITS}"),
        "all limits",
    );
    page.until(
        "document.querySelector('#cards').firstElementChild.dataset.limit.startsWith('team-123')",
        "the most limited to be first",
    );
    page.until(
        "document.querySelector('#cards li:first-child .counts').innerText \
         .replaceAll('\\n', ' ').includes('denied 8')",
        "its numbers",
    );
    // A canvas that was never drawn has the default width of 300.
    let drawn = page.eval(
        "[...document.querySelectorAll('li.limit canvas')].filter((c) => c.width !== 300).length",
    );
    assert!(
        drawn.as_u64().is_some_and(|drawn| (1..60).contains(&drawn)),
        "{drawn} of {LIMITS} plots were drawn"
    );

    page.click("#filter");
    page.write("team-07");
    let seen = "[...document.querySelectorAll('li.limit')].filter((e) => !e.hidden).length";
    page.until(&format!("{seen} === 10"), "ten limits");
    assert_eq!(page.text("#limits-count"), "10 of 200");
    page.write("zzz");
    page.until(
        &format!("{seen} === 0 && !document.querySelector('#limits-none').hidden"),
        "none",
    );
    page.eval(
        "(() => { const f = document.querySelector('#filter'); f.value = ''; \
         f.dispatchEvent(new Event('input')); })()",
    );
    page.click("#as-table");
    page.until(
        &format!("document.querySelectorAll('#table tbody tr:not([hidden])').length === {LIMITS}"),
        "all rows",
    );
    page.until(
        "document.querySelector('#table tbody tr').innerText.includes('team-123')",
        "the order",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn nothing_scrolls_sideways_on_a_phone() {
    let service = Tollgate::with_config(&config());
    let browser = Browser::start();
    let page = open(&browser, &service);
    page.resize(360, 740, 2.0);
    check(&service, 5, 9);
    page.until(
        "document.querySelectorAll('#top-keys tbody tr').length === 1",
        "a limited key",
    );
    expect_no_sideways_scrolling(&page, "plots");
    page.click("#top-keys tbody button");
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '0'",
        "the state of the key",
    );
    expect_no_sideways_scrolling(&page, "with an answer");
    page.click("#as-table");
    expect_no_sideways_scrolling(&page, "table");
    service.rewrite_config(&config().replace("limit: 2,", "limit: two,"));
    page.until(
        "!document.querySelector('#config-error').hidden",
        "an error",
    );
    expect_no_sideways_scrolling(&page, "with a long error");
}
