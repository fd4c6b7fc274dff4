//! The page asks for the token, and keeps it in the tab.

use testkit::browser::Browser;

use super::{CONFIG, LOGIN, shown};
use crate::harness::Tollgate;

const TOKEN: &str = "a-token-of-enough-letters";

#[test]
fn the_page_asks_for_the_token_and_works_with_it() {
    let service = Tollgate::with(CONFIG, &[], &[("TOLLGATE_ADMIN_TOKEN", TOKEN)]);
    let browser = Browser::start();
    let page = browser.open(&format!("http://{}/", service.admin));
    page.until(
        "document.querySelector('#token-dialog').open",
        "the token dialog",
    );
    assert_eq!(
        page.eval("document.activeElement.id"),
        "token",
        "the field has the focus"
    );
    page.write("not-the-right-token");
    page.press("Enter", 13);
    page.until(
        "document.querySelector('#token-wrong').textContent !== ''",
        "that it is wrong",
    );
    page.until(
        "document.querySelector('#token-dialog').open",
        "the token dialog again",
    );
    page.write(TOKEN);
    page.press("Enter", 13);
    page.until(
        "document.body.dataset.live === 'true' && document.querySelectorAll('li.limit').length > 2",
        "the page",
    );

    (0..5).for_each(|_| drop(service.check(LOGIN)));
    page.until(
        "document.querySelectorAll('#top-keys tbody tr').length === 1",
        "a limited key",
    );
    page.until(
        "document.querySelector('li[data-limit=\"login\"] .denied-count').textContent === '2'",
        "the denials",
    );
    assert_eq!(shown(&page, "login"), [3, 2, 0]);
    page.click("#top-keys tbody button");
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '0'",
        "the state of the key",
    );
    page.click("#key-reset");
    page.click("#key-reset");
    page.until(
        "document.querySelector('#key-answer dl')?.dataset.remaining === '3'",
        "the reset",
    );

    // The token is stored in this tab only.
    let elsewhere =
        page.eval("JSON.stringify([location.href, { ...localStorage }, document.cookie])");
    assert!(!elsewhere.to_string().contains(TOKEN), "{elsewhere}");
    page.go(&format!("http://{}/", service.admin));
    page.until(
        "document.body.dataset.live === 'true'",
        "the page, without the dialog",
    );
    assert!(!service.log().contains(TOKEN));
}
