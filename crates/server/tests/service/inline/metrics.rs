//! The names of limits that requests bring along are labels, but only the first ones.

use testkit::reverse_proxy;

use super::{CHAT, body};
use crate::harness::Tollgate;

const NAMES: usize = 150;

fn page(service: &Tollgate) -> String {
    reverse_proxy::get(service.admin, "/metrics", &[]).text()
}

/// The values of the label `limit` in the counts of decisions.
fn labels(page: &str) -> Vec<&str> {
    let lines = page.lines();
    lines
        .filter_map(|line| line.strip_prefix("tollgate_decisions_total{limit=\""))
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

#[test]
fn only_the_first_names_have_series() {
    let service = Tollgate::start();
    for number in 0..NAMES {
        let chat = CHAT.replace("chat", &format!("name-{number}"));
        assert_eq!(service.check(&chat).status, 200);
    }
    let page = page(&service);
    let labels = labels(&page);
    // The built-in limit has two from the start.
    assert_eq!(labels.len(), 2 + 100 + 1, "{labels:?}");
    for sample in [
        r#"tollgate_decisions_total{limit="name-99",outcome="allowed",source="store"} 1"#,
        r#"tollgate_decisions_total{limit="other",outcome="allowed",source="store"} 50"#,
    ] {
        assert!(page.contains(sample), "{sample}\n{page}");
    }
    assert!(!page.contains("user:42"), "{page}");
}

#[test]
fn a_name_that_is_configured_later_has_one_series() {
    let file = |name: &str| {
        format!(
            "limits: [{{ name: {name}, key: [], algorithm: sliding_log, limit: 9, window: 1h }}]"
        )
    };
    let service = Tollgate::with_config(&file("api"));
    assert_eq!(service.check(CHAT).status, 200);
    assert!(labels(&page(&service)).contains(&"chat"));

    service.rewrite_config(&file("chat"));
    let reloaded = reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(reloaded.status, 200);
    let refused = service.check(CHAT);
    assert_eq!(refused.status, 422);
    assert_eq!(body(&refused)["code"], "limit-is-configured");

    assert_eq!(service.check(r#"{"limits": ["chat"]}"#).status, 200);
    let page = page(&service);
    let sample = r#"tollgate_decisions_total{limit="chat",outcome="allowed",source="store"}"#;
    assert_eq!(page.matches(sample).count(), 1, "{page}");
    assert!(page.contains(&format!("{sample} 1\n")), "{page}");
}
