//! The page shows the numbers of `/metrics`, and looks up and resets keys.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use testkit::browser::Browser;
use testkit::wait;

use super::{CONFIG, LOGIN, ORDERS, open, shown, shown_in_table};
use crate::dashboard::{Counts, counted};
use crate::harness::{PATIENCE, Tollgate};
use crate::load::{Connection, Ends};

/// Enough requests for several samples.
const REQUESTS_MIN: u64 = 500;
const NAMES: [&str; 3] = ["login", "plan", "quota"];

fn is_at_least(one: Counts, other: Counts) -> bool {
    one.iter().zip(other).all(|(one, other)| *one >= other)
}

#[test]
fn numbers_equal_metrics_while_load_runs_and_after() {
    let service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _also_when_it_fails = Ends(&is_over);
        for body in [LOGIN, ORDERS] {
            let (service, is_over) = (&service, &is_over);
            scope.spawn(move || {
                let mut connection = Connection::open(service.http).expect("it listens");
                while !is_over.load(Relaxed) {
                    connection.check(body).expect("it answers");
                }
            });
        }
        wait::until_true(PATIENCE, "load", || {
            counted(&service)["plan"][0] > REQUESTS_MIN
        });
        // The page catches up with earlier counts, and never shows more than was counted.
        for _ in 0..3 {
            let before = counted(&service);
            wait::until_true(PATIENCE, "the page to catch up with the load", || {
                NAMES
                    .iter()
                    .all(|name| is_at_least(shown(&page, name), before[*name]))
            });
            let on_page = NAMES.map(|name| shown(&page, name));
            let after = counted(&service);
            for (name, on_page) in NAMES.iter().zip(on_page) {
                assert!(
                    is_at_least(after[*name], on_page),
                    "{name}: {on_page:?} but {:?}",
                    after[*name]
                );
            }
        }
    });
    let expected = counted(&service);
    wait::until_true(PATIENCE, "the last numbers", || {
        NAMES
            .iter()
            .all(|name| shown(&page, name) == expected[*name])
    });
    page.click("#as-table");
    wait::until_true(PATIENCE, "the same numbers in the table", || {
        NAMES
            .iter()
            .all(|name| shown_in_table(&page, name) == expected[*name])
    });
    assert_eq!(counted(&service), expected);
    let login = expected["login"];
    assert!(
        login[0] == 3 && login[1] > 0 && expected["quota"][2] > 0,
        "{expected:?}"
    );

    // A page opened now shows the same.
    page.go("about:blank");
    page.go(&format!("http://{}/", service.admin));
    wait::until_true(PATIENCE, "the numbers of the past", || {
        let is_ready = page.eval(
            "document.body.dataset.live === 'true' \
             && document.querySelectorAll('li.limit').length > 2",
        );
        is_ready == true
            && NAMES
                .iter()
                .all(|name| shown(&page, name) == expected[*name])
    });
    let most = |page: &testkit::browser::Page<'_>| page.text("#share-note");
    assert!(most(&page).contains("decisions"), "{}", most(&page));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_key_is_looked_up_and_reset_by_hand() {
    let service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    (0..5).for_each(|_| drop(service.check(LOGIN)));
    (0..6).for_each(|_| drop(service.check(ORDERS)));
    page.until(
        "document.querySelectorAll('#top-keys tbody tr').length === 2",
        "two denied keys",
    );
    assert!(
        page.text("#top-keys tbody tr:first-child")
            .contains("ann+x@example.com")
    );
    let words = page.text("#top-keys tbody");
    assert!(
        words.contains("203.0.113.7") && !words.contains("sk-live"),
        "{words}"
    );

    page.click("#top-keys tbody tr:first-child button");
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '0'",
        "the state of the key",
    );
    let answer = page.text("#key-answer");
    assert!(
        answer.contains("0 of 3") && answer.contains("denied for"),
        "{answer}"
    );
    page.click("#key-reset");
    assert_eq!(page.text("#key-reset"), "Really reset?");
    assert_eq!(service.check(LOGIN).status, 429, "one press is not enough");
    page.click("#key-reset");
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '3'",
        "the reset",
    );
    assert_eq!(service.check(LOGIN).status, 200);
    service.wait_for_log("a key was reset through the admin port");

    // By hand, with a secret that is shown as its hash.
    page.eval(
        "(() => { const s = document.querySelector('#key-limit'); s.value = 'plan'; \
         s.dispatchEvent(new Event('change')); })()",
    );
    assert_eq!(
        page.text("#key-answer"),
        "",
        "what was found belongs to the other limit"
    );
    page.click("#key-parts input");
    page.write("sk-live-0123456789");
    page.press("Enter", 13);
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '99994'",
        "the state of the key",
    );
    let answer = page.text("#key-answer");
    assert!(
        answer.contains('#') && !answer.contains("sk-live"),
        "{answer}"
    );
    page.click("#key-parts input");
    page.write("x");
    assert_eq!(
        page.eval("document.querySelector('#key-reset').disabled"),
        true,
        "another key than was found"
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// A right-to-left override in a key would reverse the rest of the row.
#[test]
fn hidden_characters_of_a_key_are_shown_escaped() {
    let service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    let login = LOGIN.replace("ann+x@", "ann\u{202e}x\u{200b}@");
    (0..5).for_each(|_| drop(service.check(&login)));
    page.until(
        "document.querySelectorAll('#top-keys tbody tr').length === 1",
        "a denied key",
    );
    let row = page.text("#top-keys tbody tr");
    assert!(row.contains(r"ann\u{202e}x\u{200b}@example.com"), "{row}");

    // The form has the key itself, so that it is found; the answer shows it escaped.
    page.click("#top-keys tbody button");
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '0'",
        "the state of the key",
    );
    let answer = page.text("#key-answer dl");
    assert!(
        answer.contains(r"ann\u{202e}x\u{200b}@example.com"),
        "{answer}"
    );
    let labels = page.accessible();
    let label = r"Look up 203.0.113.7, ann\u{202e}x\u{200b}@example.com in login";
    assert!(labels.iter().any(|(_, name)| name == label), "{labels:?}");
}
