//! Notices appear and disappear quickly: an outage of the store, a failed reload, an alert, and the
//! end of the service.

use testkit::browser::{Browser, Page};
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::{CONFIG, LOGIN, open, samples};
use crate::harness::{PATIENCE, Tollgate};

/// A change must show within two seconds, that is within two samples, plus one for a browser that
/// draws late. Samples are counted instead of time, so that a slow machine does not matter.
const SAMPLES_MAX: u64 = 3;

/// Makes the page record when its notice about the store appears and disappears.
const WATCH: &str = "(() => {
    const box = document.querySelector('#notices');
    window.changes = [];
    let was = false;
    new MutationObserver(() => {
        const is = box.querySelector('[data-name=\"store\"]') !== null;
        const samples = Number(document.body.dataset.samples);
        if (is !== was) window.changes.push([is, samples, Date.now()]);
        was = is;
    }).observe(box, { childList: true });
})()";

/// Waits for a change of the notice. Returns the samples received by then, and the milliseconds
/// since `began_ms`.
fn change(page: &Page<'_>, number: usize, began_ms: u64) -> (u64, u64) {
    page.until(
        &format!("window.changes.length >= {number}"),
        "the notice about the store to change",
    );
    let change = page.eval(&format!("window.changes[{}]", number - 1));
    assert_eq!(change[0], number % 2 == 1, "it appears, then disappears");
    let number = |place: usize| change[place].as_u64().expect("a number");
    (number(1), number(2).saturating_sub(began_ms))
}

#[test]
fn an_outage_shows_within_two_seconds_and_clears_within_two_of_its_end() {
    let store = Server::start(Flavor::Redis);
    let config = CONFIG.replace("limit: 3", "limit: 3, on_store_failure: deny");
    let config = format!(
        "store: {{ type: redis, endpoints: [\"{}\"], timeout: 200ms }}{config}",
        store.url()
    );
    let service = Tollgate::with_config(&config);
    let browser = Browser::start();
    let page = open(&browser, &service);
    page.until(
        "document.querySelector('#pill-store').textContent === 'redis up'",
        "the store",
    );
    page.eval(WATCH);
    let now_ms = || page.eval("Date.now()").as_u64().expect("a number");

    let (before, began) = (samples(&page), now_ms());
    store.kill();
    let (shown, took) = change(&page, 1, began);
    println!(
        "an outage showed after {took} ms and {} samples",
        shown - before
    );
    assert!(shown - before <= SAMPLES_MAX, "{} samples", shown - before);
    assert_eq!(page.text("#pill-store"), "redis unavailable");
    assert!(page.text("#notices").contains("The store is unavailable."));
    assert_eq!(service.check(LOGIN).status, 503, "by its policy");

    store.restart();
    let (before, began) = (samples(&page), now_ms());
    let (cleared, took) = change(&page, 2, began);
    let samples_since = cleared.saturating_sub(before);
    println!("its end showed after {took} ms and {samples_since} samples");
    assert!(samples_since <= SAMPLES_MAX, "{samples_since} samples");
    page.until(
        "document.querySelector('#pill-store').textContent === 'redis up'",
        "the store",
    );
    page.until(
        "document.querySelector('#periods-summary').textContent === '1 degraded period'",
        "the past",
    );
    page.until(
        "document.querySelector('li[data-limit=\"login\"] .stack-labels').textContent \
         .includes('fallback')",
        "how it was decided meanwhile",
    );
    assert!(
        page.text("#degraded-total").contains("degraded for"),
        "{}",
        page.text("#degraded-total")
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// A configuration without warnings: a pair on a login has one.
fn without_pair() -> String {
    CONFIG.replace("[client_ip, email]", "[email]")
}

#[test]
fn a_failed_reload_shows_its_error_until_a_valid_one() {
    let config = without_pair();
    let service = Tollgate::with_config(&config);
    let browser = Browser::start();
    let page = open(&browser, &service);
    assert_eq!(page.text("#pill-config"), "3 limits active");
    service.rewrite_config(&config.replace("limit: 3", "limit: three"));
    page.click("#reload");
    page.until(
        "document.querySelector('#pill-config').dataset.state === 'bad'",
        "the refusal",
    );
    assert!(page.text("#notices").contains("The last reload failed."));
    let error = page.text("#config-error-text");
    assert!(
        error.contains("tollgate.yaml:7:") && error.contains("three"),
        "{error}"
    );
    assert!(
        page.text("#config").contains("0 applied"),
        "{}",
        page.text("#config")
    );

    service.rewrite_config(&config.replace("name: quota", "name: daily"));
    page.until(
        "document.querySelector('li[data-limit=\"daily\"]') !== null",
        "the new limit",
    );
    page.until(
        "document.querySelector('li[data-limit=\"quota\"]') === null",
        "the old one to go",
    );
    page.until(
        "document.querySelector('#config-error').hidden",
        "the error to go",
    );
    assert!(page.eval("document.querySelector('#notices').children.length") == 0);
    // The browser may report the rejected reload; nothing else may have gone wrong.
    let others = page
        .complaints()
        .into_iter()
        .filter(|complaint| !complaint.contains("/admin/reload"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn warnings_are_shown_until_the_configuration_is_corrected() {
    let config = without_pair();
    let service = Tollgate::with_config(&config.replace(
        "limits:",
        "defaults: { expected_replicas: 4, consistency: leased }\nlimits:",
    ));
    let browser = Browser::start();
    let page = open(&browser, &service);

    let notice = page.text("#notices");
    assert!(notice.contains("defaults.expected_replicas: the memory store is not shared"));
    assert!(
        notice.contains("All 2 warnings are listed below."),
        "{notice}"
    );
    let listed = page.text("#warnings-list");
    assert!(
        listed.contains("several replicas") && listed.contains("defaults.consistency: no effect"),
        "{listed}"
    );

    service.rewrite_config(&config);
    page.until("document.querySelector('#warnings').hidden", "no warnings");
    assert!(page.eval("document.querySelector('#notices').children.length") == 0);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn an_alert_and_a_lost_connection_are_shown() {
    let mut service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    (0..40).for_each(|_| drop(service.check(LOGIN)));
    page.until(
        "document.querySelector('li[data-limit=\"login\"]').dataset.firing === 'true'",
        "the alert",
    );
    assert!(
        page.text("#notices")
            .contains("login denies too many requests.")
    );
    assert_eq!(page.text("#pill-alerts"), "1 alert");
    assert!(
        page.text("li[data-limit='login'] .meter-row")
            .contains("alert at 50 %")
    );
    page.until(
        "document.querySelector('#cards').firstElementChild.dataset.limit === 'login'",
        "the most limited to be first",
    );
    service.signal("TERM");
    wait::until_true(PATIENCE, "the page to say so", || {
        page.text("#pill-live") == "not connected"
    });
    assert!(service.wait_for_exit().success());
    assert!(page.text("#notices").contains("Not connected."));
}
