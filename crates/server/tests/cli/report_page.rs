//! The HTML report in a real browser: readable on a phone and on a laptop, in both colour schemes.

use std::fmt::Write as _;

use testkit::browser::{Browser, Page, Scheme};
use testkit::processes::Directory;

use super::{text, tollgate};

/// Names and keys are long, and numbers have many digits.
const FIRST: &str = r#"
limits:
  - { name: everything-of-one-address-that-has-a-long-name, key: [client_ip, "header:user-agent"], algorithm: sliding_window, limit: 20, window: 15m, optional: true }
  - { name: login, key: [client_ip], algorithm: sliding_log, limit: 3, window: 15m }
  - { name: exports, key: [client_ip], algorithm: concurrency, limit: 1, permit_timeout: 1m }
"#;
/// The limits of the first configuration in another order, and one more.
const SECOND: &str = r#"
limits:
  - { name: all, key: [], algorithm: token_bucket, capacity: 100, refill_rate: 100/minute }
  - { name: login, key: [client_ip], algorithm: sliding_log, limit: 30, window: 15m }
  - { name: everything-of-one-address-that-has-a-long-name, key: [client_ip, "header:user-agent"], algorithm: sliding_window, limit: 20, window: 15m, optional: true }
"#;

/// A night of a few visitors and one attacker, with an invalid line.
fn log() -> String {
    let agent = "a-user-agent-without-any-space-".repeat(6);
    let mut log = "this is not a line of an access log\n".repeat(3);
    for minute in 0..600 {
        let (hour, minute) = (10 + minute / 60, minute % 60);
        for client in [7, 8 + minute % 40, 7, 2] {
            let _infallible = writeln!(
                log,
                "203.0.113.{client} - - [10/Oct/2026:{hour}:{minute:02}:00 +0000] \
                 \"GET / HTTP/1.1\" 200 5 \"-\" \"{agent}{client}\" 12.500"
            );
        }
    }
    log
}

/// Writes the report and returns the directory that has it.
fn report() -> Directory {
    let directory = Directory::create();
    let page = directory.path().join("report.html");
    let files = [
        directory.write("first.yaml", FIRST),
        directory.write("second.yaml", SECOND),
        directory.write("access.log", log()),
    ];
    let [first, second, log] = files.each_ref().map(|file| file.to_str().expect("UTF-8"));
    let output = tollgate(&[
        "simulate",
        "--config",
        first,
        "--against",
        second,
        "--suggest",
        "--html",
        page.to_str().expect("UTF-8"),
        log,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    directory
}

/// The texts that reach over the edge of the window, or are cut by an element around them.
const CUT: &str = "[...document.querySelectorAll('main *')].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.right > innerWidth + 0.5 || box.left < -0.5
        || (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0
            && getComputedStyle(element).overflowX !== 'visible');
}).map((element) => element.outerHTML.slice(0, 90))";

fn expect_readable(page: &Page<'_>, what: &str) {
    let widths = page.eval("[document.documentElement.scrollWidth, innerWidth]");
    assert_eq!(widths[0], widths[1], "{what}: the page scrolls sideways");
    assert_eq!(page.eval(CUT), serde_json::json!([]), "{what}: cut off");
    let smallest = page.eval(
        "Math.min(...[...document.querySelectorAll('main *')]
            .map((element) => parseFloat(getComputedStyle(element).fontSize)))",
    );
    assert!(smallest.as_f64() >= Some(11.0), "{what}: {smallest}");
}

#[test]
fn the_report_fits_a_phone_and_a_laptop() {
    let directory = report();
    let browser = Browser::start();
    let url = format!("file://{}", directory.path().join("report.html").display());
    let page = browser.open(&url);
    page.until("document.querySelector('figure.plot') !== null", "a plot");
    for scheme in [Scheme::Light, Scheme::Dark] {
        page.prefer(scheme);
        for width in [360, 400, 720, 1280] {
            page.resize(width, 900, 1.0);
            expect_readable(&page, &format!("{width} px"));
        }
    }

    // The worst minute is a column of its own on a laptop, and a line on a phone.
    let worst = "document.querySelector('td[data-name=\"worst minute\"]').getBoundingClientRect()";
    let right = page.eval(&format!(
        "{worst}.right <= innerWidth && {worst}.width > 100"
    ));
    assert_eq!(right, true);
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn the_comparison_is_first_and_limits_have_one_order() {
    let directory = report();
    let browser = Browser::start();
    let url = format!("file://{}", directory.path().join("report.html").display());
    let page = browser.open(&url);
    page.until("document.querySelector('h2') !== null", "a heading");

    let heading = page.eval("document.querySelector('h2').textContent");
    assert!(
        heading
            .as_str()
            .is_some_and(|text| text.contains(" compared with "))
    );
    let tables = page.eval(
        "[...document.querySelectorAll('table')].filter((table) =>
            ['denied by', 'limit'].includes(table.querySelector('th').textContent))
         .map((table) => [...table.querySelectorAll('tbody th')]
            .map((name) => name.firstChild.textContent.trim()))",
    );
    let long = "everything-of-one-address-that-has-a-long-name";
    assert_eq!(
        tables,
        serde_json::json!([
            ["all requests", long, "login", "exports", "all"],
            [long, "login", "exports"],
            [long, "login", "all"],
        ])
    );
    let ticks = page.eval(
        "[...document.querySelectorAll('.times')[0].children].map((tick) => tick.textContent)",
    );
    assert_eq!(ticks, serde_json::json!(["12:00", "15:00", "18:00"]));
    let legend = page.text(".legend");
    assert!(legend.contains("per 2 minutes"), "{legend}");
}
