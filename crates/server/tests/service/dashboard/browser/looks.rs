//! Themes and accessibility: contrast, keyboard, screen reader.

use std::path::PathBuf;

use testkit::browser::{Browser, Page, Scheme};

use super::{CONFIG, LOGIN, ORDERS, open};
use crate::harness::Tollgate;

/// The lowest contrast of any text on the page, as defined by WCAG.
const CONTRAST: &str = "(() => {
    const light = (color) => {
        const parts = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
        const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = parts.map(linear);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const between = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const back = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const color = getComputedStyle(e).backgroundColor;
            if (!color.endsWith(', 0)')) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const selector = 'h1, h2, h3, p, dt, dd, td, th, label, button:not(:disabled), .pill, summary';
    const texts = [...document.querySelectorAll(selector)]
        .filter((e) => e.innerText?.trim() && e.checkVisibility());
    const contrast = (e) => between(getComputedStyle(e).color, back(e));
    return texts.map((e) => [contrast(e), e.innerText.slice(0, 30)]).sort((a, b) => a[0] - b[0])[0];
})()";

fn keep(page: &Page<'_>, name: &str) {
    let picture = page.screenshot();
    assert!(
        picture.starts_with(b"\x89PNG") && picture.len() > 20_000,
        "{name}: {} bytes",
        picture.len()
    );
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&place).expect("a writable directory");
    std::fs::write(place.join(name), picture).expect("a writable directory");
}

#[test]
fn both_themes_have_enough_contrast_and_the_choice_is_kept() {
    let service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    (0..40).for_each(|_| drop(service.check(LOGIN)));
    (0..40).for_each(|_| drop(service.check(ORDERS)));
    page.until(
        "document.querySelectorAll('#top-keys tbody tr').length > 1",
        "something to see",
    );
    let back = || page.eval("getComputedStyle(document.body).backgroundColor");
    let mut backs = Vec::new();
    for (scheme, name) in [
        (Scheme::Light, "dashboard-light.png"),
        (Scheme::Dark, "dashboard-dark.png"),
    ] {
        page.prefer(scheme);
        page.resize(1280, 900, 1.0);
        let least = page.eval(CONTRAST);
        assert!(least[0].as_f64() >= Some(4.5), "{name}: {least}");
        keep(&page, name);
        backs.push(back());
    }
    assert_ne!(backs[0], backs[1]);
    page.eval(
        "(() => { const s = document.querySelector('#theme'); s.value = 'light'; \
         s.dispatchEvent(new Event('change')); })()",
    );
    assert_eq!(back(), backs[0], "the choice overrides the system");
    page.go(&format!("http://{}/", service.admin));
    page.until("document.body.dataset.live === 'true'", "the page");
    assert_eq!(back(), backs[0], "the choice is remembered");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn pointing_at_the_plot_shows_its_numbers() {
    let service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    (0..9).for_each(|_| drop(service.check(LOGIN)));
    page.until(
        "document.querySelector('.denied-count').textContent === '6'",
        "something to see",
    );
    page.point("#plot-all");
    page.until(
        "!document.querySelector('#readout').hidden && document.querySelector('#legend').hidden",
        "the words",
    );
    let words = page.text("#readout");
    assert!(
        words.contains("/s allowed, ") && words.contains("p99"),
        "{words}"
    );
    page.point("h1");
    page.until(
        "document.querySelector('#readout').hidden",
        "the legend again",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn everything_is_accessible_by_keyboard_and_named() {
    let service = Tollgate::with_config(CONFIG);
    let browser = Browser::start();
    let page = open(&browser, &service);
    (0..5).for_each(|_| drop(service.check(LOGIN)));
    page.until(
        "document.querySelectorAll('#top-keys tbody tr').length === 1",
        "a limited key",
    );

    let mut reached = Vec::new();
    for _ in 0..40 {
        page.press("Tab", 9);
        let focus =
            page.eval("document.activeElement.id || document.activeElement.textContent.trim()");
        let focus = focus.as_str().unwrap_or_default().to_owned();
        if page.eval("document.activeElement === document.body") == true {
            // Past the last one.
            break;
        }
        let outline = page.eval("getComputedStyle(document.activeElement).outlineStyle");
        assert_ne!(outline, "none", "where the focus is shows: {focus}");
        reached.push(focus);
    }
    assert_eq!(
        reached.first().map(String::as_str),
        Some("Skip to the limits")
    );
    for wanted in [
        "span",
        "theme",
        "filter",
        "sort",
        "as-plots",
        "as-table",
        "Look up",
        "key-limit",
        "reload",
    ] {
        assert!(
            reached.iter().any(|found| found == wanted),
            "{wanted} is not among {reached:?}"
        );
    }
    page.eval("document.querySelector('#as-table').focus()");
    page.press("Enter", 13);
    page.until(
        "!document.querySelector('#table-box').hidden && document.querySelector('#cards').hidden",
        "the table",
    );
    page.eval("document.querySelector('#as-plots').focus()");
    page.press("Enter", 13);
    page.until("!document.querySelector('#cards').hidden", "the plots");

    let tree = page.accessible();
    let named = [
        "button",
        "textbox",
        "searchbox",
        "combobox",
        "image",
        "img",
        "region",
        "table",
        "link",
    ];
    for (role, name) in &tree {
        // A table is named by the region around it.
        let needs_name = named.contains(&role.as_str()) && role != "table";
        assert!(
            !needs_name || !name.trim().is_empty(),
            "a {role} without a name in {tree:#?}"
        );
    }
    for landmark in ["banner", "main", "contentinfo", "status"] {
        assert!(
            tree.iter().any(|(role, _)| role == landmark),
            "no {landmark}"
        );
    }
    let level = page.eval("document.querySelector('#notices').ariaLive");
    assert_eq!(level, "polite");
    let plot = tree.iter().find(|(_, name)| name.starts_with("login: "));
    assert!(
        plot.is_some_and(|(_, name)| name.contains("3 allowed and 2 denied")),
        "{plot:?}"
    );
}
