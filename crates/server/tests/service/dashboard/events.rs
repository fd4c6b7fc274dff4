//! The stream behind the page, read without a browser.

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use super::counted;
use super::viewer::{Viewer, add, told};
use crate::harness::{PATIENCE, Tollgate};

const TOKEN: &str = "a-token-of-enough-letters";
/// As many as the service lets in.
const VIEWERS_MAX: usize = 16;

const CONFIG: &str = r#"
hash_keys: ["header:x-api-key"]
hash_secret: not-so-secret-in-a-test
limits:
  - { name: narrow, match: { path: /narrow }, key: [client_ip, email], algorithm: sliding_log, limit: 2, window: 1h }
  - { name: secret, match: { path: /secret }, key: ["header:x-api-key | client_ip"], algorithm: sliding_log, limit: 1, window: 1h }
  - { name: seen, match: { path: /seen }, key: [tenant], algorithm: sliding_log, limit: 1, window: 1h, shadow: true }
"#;

fn ask(service: &Tollgate, path: &str, times: usize) {
    let body = format!(
        r#"{{"attributes": {{"path": "{path}", "client_ip": "203.0.113.7", "email": "ann@example.com", "tenant": "acme",
            "header:x-api-key": "sk-live-0123456789"}}}}"#
    );
    for _ in 0..times {
        let status = service.check(&body).status;
        assert!(status == 200 || status == 429, "{status}");
    }
}

#[test]
fn whoever_comes_is_told_the_past_and_then_everything() {
    let service = Tollgate::with_config(CONFIG);
    ask(&service, "/narrow", 5);
    let mut first = Viewer::open(&service);
    let limits = first.next().expect("an event");
    assert_eq!((first.status, limits.name.as_str()), (200, "limits"));
    let (id, mut said) = told(&limits.data, "narrow");
    // The past is part of what it had said; what comes after the first word about now is not.
    first.until_now("the end of the past", |_| true);
    ask(&service, "/narrow", 4);
    let expected = [2, 7, 0];
    first.until("all of it", |event| {
        if event.name == "sample" {
            add(&mut said, &event.data, id);
        }
        said == expected
    });
    assert_eq!(counted(&service)["narrow"], expected);

    let mut later = Viewer::open(&service);
    let limits = later.next().expect("an event").data;
    assert_eq!(told(&limits, "narrow"), (id, expected));
    let mut past = [0; 3];
    later.until("the end of the past", |event| {
        if event.name == "sample" {
            add(&mut past, &event.data, id);
        }
        event.name == "now"
    });
    assert_eq!(past, expected, "all of it was of late");
}

#[test]
fn those_who_are_limited_most_are_told_by_what_may_be_shown_while_someone_looks() {
    let service = Tollgate::with_config(CONFIG);
    ask(&service, "/narrow", 50);
    let mut viewer = Viewer::open(&service);
    let before = viewer.until_now("the end of the past", |_| true);
    assert_eq!(before["refused"], serde_json::json!([]), "nobody looked");
    ask(&service, "/narrow", 4);
    ask(&service, "/secret", 3);
    ask(&service, "/seen", 2);
    let now = viewer.until_now("three keys", |now| {
        now["refused"].as_array().map(Vec::len) == Some(3)
    });
    let plain = serde_json::json!([
        {"attribute": "client_ip", "value": "203.0.113.7", "hashed": false},
        {"attribute": "email", "value": "ann@example.com", "hashed": false},
    ]);
    let refused = &now["refused"];
    assert_eq!(
        (&refused[0]["key"], &refused[0]["count"]),
        (&plain, &4.into())
    );
    let hashed = &refused[1]["key"][0];
    assert_eq!(
        (
            &hashed["attribute"],
            &hashed["hashed"],
            &refused[1]["count"]
        ),
        (&"header:x-api-key".into(), &true.into(), &2.into())
    );
    let shown = serde_json::json!([{"attribute": "tenant", "value": "acme", "hashed": false}]);
    assert_eq!(
        (&refused[2]["key"], &refused[2]["count"]),
        (&shown, &1.into()),
        "it would have been"
    );
    let asked = reverse_proxy::get(
        service.admin,
        "/admin/keys?limit=secret&header:x-api-key=sk-live-0123456789",
        &[],
    );
    let asked: serde_json::Value = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!(
        asked["key"][0], *hashed,
        "the same hash as whoever asks about the key is told"
    );
    assert!(!now.to_string().contains("sk-live"), "{now}");

    // Another configuration hashes what was in the clear: it does not show any more.
    service.rewrite_config(
        &CONFIG.replace(r#"["header:x-api-key"]"#, r#"["header:x-api-key", email]"#),
    );
    let reloaded = viewer.until_now("the new configuration", |now| {
        now["status"]["config"]["reloads"] == 1
    });
    assert!(
        !reloaded.to_string().contains("ann@example.com"),
        "{reloaded}"
    );

    drop(viewer);
    let is_forgotten = || {
        let mut viewer = Viewer::open(&service);
        viewer.until_now("the end of the past", |_| true)["refused"] == serde_json::json!([])
    };
    wait::until_true(PATIENCE, "the keys to be forgotten", is_forgotten);
}

#[test]
fn an_outage_and_its_end_are_told_at_once_and_kept_in_the_past() {
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
        assert!(samples <= 2, "{what} was told after {samples} samples");
    };
    store.kill();
    expect_soon(&mut viewer, "the outage", true);
    viewer.until("a sample of it", |event| {
        event.name == "sample" && event.data["degraded"].as_u64() > Some(0)
    });
    store.restart();
    // Whoever comes now has not been told what came while the store began.
    let mut fresh = Viewer::open(&service);
    if !is(false)(&fresh.until_now("the end of the past", |_| true)) {
        expect_soon(&mut fresh, "its end", false);
    }
    let mut later = Viewer::open(&service);
    let mut was_away = false;
    later.until("the end of the past", |event| {
        was_away |= event.data["degraded"].as_u64() > Some(0) && event.data["up"] == false;
        event.name == "now"
    });
    assert!(was_away);
}

#[test]
fn a_refused_file_is_told_with_its_error_and_a_new_one_with_its_limits() {
    let service = Tollgate::with_config(CONFIG);
    let mut viewer = Viewer::open(&service);
    viewer.until_now("the end of the past", |_| true);
    service.rewrite_config("limits: wrong");
    let refused = viewer.until_now("the refusal", |now| {
        !now["status"]["config"]["error"].is_null()
    });
    let message = refused["status"]["config"]["error"]["message"]
        .as_str()
        .expect("a text");
    assert!(message.contains("tollgate.yaml:1:9"), "{message}");
    service.rewrite_config(&CONFIG.replace("name: narrow", "name: other"));
    let limits = viewer
        .until("the new limits", |event| event.name == "limits")
        .data;
    assert_eq!(told(&limits, "other").1, [0; 3]);
    let now = viewer.until_now("the end of the error", |now| {
        now["status"]["config"]["error"].is_null()
    });
    assert_eq!(now["status"]["config"]["reloads"], 1);
}

#[test]
fn events_are_for_those_who_may_ask() {
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
fn there_is_room_for_so_many_viewers_and_a_place_comes_back() {
    let service = Tollgate::with_config(CONFIG);
    let open: Vec<Viewer> = (0..VIEWERS_MAX).map(|_| Viewer::open(&service)).collect();
    assert!(open.iter().all(|viewer| viewer.status == 200));
    assert_eq!(Viewer::open(&service).status, 503);
    assert_eq!(
        reverse_proxy::get(service.admin, "/admin/status", &[]).status,
        200,
        "only the page is full"
    );
    drop(open);
    wait::until_true(PATIENCE, "a place", || Viewer::open(&service).status == 200);
}

#[test]
fn nobody_who_looks_keeps_the_service_from_ending() {
    let config = format!("server: {{ drain_timeout: 60s }}{CONFIG}");
    let mut service = Tollgate::with_config(&config);
    let mut viewer = Viewer::open(&service);
    viewer.until_now("the end of the past", |_| true);
    service.signal("TERM");
    while viewer.next().is_some() {}
    assert!(
        service.wait_for_exit().success(),
        "well within the time that a connection would be given"
    );
}
