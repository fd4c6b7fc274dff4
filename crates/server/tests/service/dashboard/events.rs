//! The event stream of the dashboard, read without a browser.

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::counted;
use super::viewer::{Viewer, add, totals};
use crate::harness::{PATIENCE, Tollgate};

const TOKEN: &str = "a-token-of-enough-letters";
/// The most viewers that the service accepts.
const VIEWERS_MAX: usize = 16;

const CONFIG: &str = r#"
hash_keys: ["header:x-api-key"]
hash_secret: not-so-secret-in-a-test
limits:
  - { name: narrow, match: { path: /narrow }, key: [client_ip, email],
      algorithm: sliding_log, limit: 2, window: 1h }
  - { name: secret, match: { path: /secret }, key: ["header:x-api-key | client_ip"],
      algorithm: sliding_log, limit: 1, window: 1h }
  - { name: seen, match: { path: /seen }, key: [tenant],
      algorithm: sliding_log, limit: 1, window: 1h, shadow: true }
"#;

fn check(service: &Tollgate, path: &str, times: usize) {
    let body = format!(
        r#"{{"attributes": {{"path": "{path}", "client_ip": "203.0.113.7",
            "email": "ann@example.com", "tenant": "acme",
            "header:x-api-key": "sk-live-0123456789"}}}}"#
    );
    for _ in 0..times {
        let status = service.check(&body).status;
        assert!(status == 200 || status == 429, "{status}");
    }
}

#[test]
fn a_viewer_receives_the_history_and_then_live_events() {
    let service = Tollgate::with_config(CONFIG);
    check(&service, "/narrow", 5);
    let mut first = Viewer::open(&service);
    let limits = first.next().expect("an event");
    assert_eq!((first.status, limits.name.as_str()), (200, "limits"));
    let (id, mut counts) = totals(&limits.data, "narrow");
    // The totals of the `limits` event include the history, but not what follows the first `now`.
    first.until_now("the end of the history", |_| true);
    check(&service, "/narrow", 4);
    let expected = [2, 7, 0];
    first.until("all of it", |event| {
        if event.name == "sample" {
            add(&mut counts, &event.data, id);
        }
        counts == expected
    });
    assert_eq!(counted(&service)["narrow"], expected);

    let mut later = Viewer::open(&service);
    let limits = later.next().expect("an event").data;
    assert_eq!(totals(&limits, "narrow"), (id, expected));
    let mut past = [0; 3];
    later.until("the end of the history", |event| {
        if event.name == "sample" {
            add(&mut past, &event.data, id);
        }
        event.name == "now"
    });
    assert_eq!(past, expected, "the history covers everything");
}

#[test]
fn an_outage_is_sent_quickly_and_kept_in_the_history() {
    let store = Server::start(Flavor::Redis);
    let config = format!(
        "store: {{ type: redis, endpoints: [\"{}\"], timeout: 200ms }}{CONFIG}",
        store.url()
    );
    let service = Tollgate::with_config(&config);
    let mut viewer = Viewer::open(&service);
    let is = |degraded: bool| {
        move |now: &serde_json::Value| {
            now["status"]["store"]["degraded"] == degraded
                && now["status"]["store"]["up"] == !degraded
        }
    };
    viewer.until_now("the store to be up", is(false));
    // A sample comes every second.
    let expect_soon = |viewer: &mut Viewer, what: &str, degraded: bool| {
        let mut samples = 0;
        viewer.until(what, |event| {
            samples += u32::from(event.name == "sample");
            event.name == "now" && is(degraded)(&event.data)
        });
        assert!(samples <= 2, "{what} was sent after {samples} samples");
    };
    store.kill();
    expect_soon(&mut viewer, "the outage", true);
    viewer.until("a sample of it", |event| {
        event.name == "sample" && event.data["degraded"].as_u64() > Some(0)
    });
    store.restart();
    // A new viewer has not received the events of the restart.
    let mut fresh = Viewer::open(&service);
    if !is(false)(&fresh.until_now("the end of the history", |_| true)) {
        expect_soon(&mut fresh, "its end", false);
    }
    let mut later = Viewer::open(&service);
    let mut was_unavailable = false;
    later.until("the end of the history", |event| {
        was_unavailable |= event.data["degraded"].as_u64() > Some(0) && event.data["up"] == false;
        event.name == "now"
    });
    assert!(was_unavailable);
}

#[test]
fn reload_errors_and_new_limits_are_sent() {
    let service = Tollgate::with_config(CONFIG);
    let mut viewer = Viewer::open(&service);
    viewer.until_now("the end of the history", |_| true);
    service.rewrite_config("limits: wrong");
    let failed = viewer.until_now("the failed reload", |now| {
        !now["status"]["config"]["error"].is_null()
    });
    let message = failed["status"]["config"]["error"]["message"]
        .as_str()
        .expect("a text");
    assert!(message.contains("tollgate.yaml:1:9"), "{message}");
    service.rewrite_config(&CONFIG.replace("name: narrow", "name: other"));
    let limits = viewer
        .until("the new limits", |event| event.name == "limits")
        .data;
    assert_eq!(totals(&limits, "other").1, [0; 3]);
    let now = viewer.until_now("the end of the error", |now| {
        now["status"]["config"]["error"].is_null()
    });
    assert_eq!(now["status"]["config"]["reloads"], 1);
}

#[test]
fn events_require_authorization() {
    let open = Tollgate::with_config(CONFIG);
    assert_eq!(
        Viewer::with(&open, "Sec-Fetch-Site: cross-site\r\n").status,
        403
    );
    assert_eq!(
        Viewer::with(&open, "Sec-Fetch-Site: same-origin\r\n").status,
        200
    );
    let rebound = reverse_proxy::get(open.admin, "/admin/events", &[("host", "rebind.example")]);
    assert_eq!(rebound.status, 403);
    for path in ["/", "/dashboard/app.js"] {
        assert_eq!(
            reverse_proxy::get(open.admin, path, &[("host", "rebind.example")]).status,
            403
        );
    }
    let posted = reverse_proxy::send(open.admin, "POST", "/admin/events", &[], b"");
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET")));

    let closed = Tollgate::with(CONFIG, &[], &[("TOLLGATE_ADMIN_TOKEN", TOKEN)]);
    assert_eq!(Viewer::open(&closed).status, 401);
    assert_eq!(
        Viewer::with(&closed, "Authorization: Bearer wrong-wrong-wrong-wrong\r\n").status,
        401
    );
    assert_eq!(
        Viewer::with(&closed, &format!("Authorization: Bearer {TOKEN}\r\n")).status,
        200
    );
}

#[test]
fn viewers_are_bounded() {
    let service = Tollgate::with_config(CONFIG);
    let open: Vec<Viewer> = (0..VIEWERS_MAX).map(|_| Viewer::open(&service)).collect();
    assert!(open.iter().all(|viewer| viewer.status == 200));
    assert_eq!(Viewer::open(&service).status, 503);
    assert_eq!(
        reverse_proxy::get(service.admin, "/admin/status", &[]).status,
        200,
        "only the viewers are bounded"
    );
    drop(open);
    wait::until_true(PATIENCE, "a viewer to be accepted", || {
        Viewer::open(&service).status == 200
    });
}

#[test]
fn an_open_viewer_does_not_delay_the_shutdown() {
    let config = format!("server: {{ drain_timeout: 60s }}{CONFIG}");
    let mut service = Tollgate::with_config(&config);
    let mut viewer = Viewer::open(&service);
    viewer.until_now("the end of the history", |_| true);
    service.signal("TERM");
    while viewer.next().is_some() {}
    assert!(
        service.wait_for_exit().success(),
        "well within the drain timeout"
    );
}
