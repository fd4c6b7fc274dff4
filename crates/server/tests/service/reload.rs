//! Reloads of the configuration.

use std::os::unix::fs::symlink;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::{reverse_proxy, wait};

use crate::harness::{PATIENCE, Tollgate};
use crate::load::Connection;

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;

fn limits(limit: u64) -> String {
    format!(
        "limits: [{{name: api, key: [user], algorithm: sliding_log, limit: {limit}, window: 1h}}]"
    )
}

/// The units that a peek reports as remaining for Ann.
fn left(service: &Tollgate) -> String {
    let answer = service
        .post("/v1/peek", r#"{"attributes": {"user": "ann"}, "cost": 0}"#)
        .text();
    let remaining = answer
        .split(r#""remaining":"#)
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    remaining
        .ok_or_else(|| format!("no remaining in {answer}"))
        .expect("an answer")
        .to_owned()
}

fn used_three_of_ten() -> Tollgate {
    let service = Tollgate::with_config(&limits(10));
    for _ in 0..3 {
        assert_eq!(service.check(ANN).status, 200);
    }
    assert_eq!(left(&service), "7");
    service
}

fn wait_until_left(service: &Tollgate, expected: &str) {
    wait::until_true(PATIENCE, "the new configuration", || {
        left(service) == expected
    });
}

#[test]
fn a_replaced_file_is_reloaded_and_counts_stay() {
    let service = used_three_of_ten();
    service.rewrite_config(&limits(20));
    wait_until_left(&service, "17");
    std::fs::write(service.config_path(), limits(5)).expect("a writable file");
    wait_until_left(&service, "2");
}

#[test]
fn a_replaced_symbolic_link_is_followed() {
    let service = used_three_of_ten();
    let file = service.config_path();
    let directory = file.parent().expect("a directory of its own");
    // As Kubernetes mounts a ConfigMap: the path goes through a link that is replaced atomically.
    for (version, limit) in [("one", 15), ("two", 20)] {
        std::fs::create_dir(directory.join(version)).expect("a writable directory");
        std::fs::write(directory.join(version).join("tollgate.yaml"), limits(limit))
            .expect("a writable directory");
    }
    symlink("one", directory.join("data")).expect("a writable directory");
    std::fs::remove_file(file).expect("it is there");
    symlink("data/tollgate.yaml", file).expect("a writable directory");
    wait_until_left(&service, "12");
    symlink("two", directory.join("next")).expect("a writable directory");
    std::fs::rename(directory.join("next"), directory.join("data")).expect("the same directory");
    wait_until_left(&service, "17");
}

#[test]
fn an_edit_that_keeps_size_and_time_is_noticed() {
    let service = used_three_of_ten();
    let modified = std::fs::metadata(service.config_path())
        .and_then(|found| found.modified())
        .expect("a file");
    let file = std::fs::File::options()
        .write(true)
        .open(service.config_path())
        .expect("a file");
    std::io::Write::write_all(&mut &file, limits(30).as_bytes()).expect("a writable file");
    file.set_modified(modified).expect("it is ours");
    wait_until_left(&service, "27");
}

/// Also if it has not changed: a variable of the store may have another meaning now.
#[test]
fn sighup_reloads_the_file() {
    let service = used_three_of_ten();
    service.signal("HUP");
    service.wait_for_log("configuration reloaded");
    assert_eq!(left(&service), "7");
}

/// The `error` of the configuration in `/admin/status`.
fn reload_error(service: &Tollgate) -> serde_json::Value {
    let status = reverse_proxy::get(service.admin, "/admin/status", &[]).text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    status["config"]["error"].clone()
}

#[test]
fn a_deleted_file_is_reported_once_and_reloaded_when_it_is_back() {
    let service = used_three_of_ten();
    let away = service.config_path().with_extension("away");
    std::fs::rename(service.config_path(), &away).expect("it is there");
    service.wait_for_log("reload failed: the old configuration stays active");
    let error = reload_error(&service)["message"].to_string();
    assert!(error.contains("No such file"), "{error}");
    assert_eq!(left(&service), "7");

    std::fs::rename(&away, service.config_path()).expect("it is there");
    service.wait_for_log("configuration reloaded");
    assert!(reload_error(&service).is_null());
    assert_eq!(service.log().matches("reload failed").count(), 1);
    assert_eq!(left(&service), "7");
}

/// Opening a pipe waits for a writer, which never comes.
#[test]
fn a_pipe_in_place_of_the_file_blocks_nothing() {
    let mut service = used_three_of_ten();
    let pipe = service.config_path().with_extension("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is a mkfifo").success());
    std::fs::rename(&pipe, service.config_path()).expect("the same directory");

    service.signal("HUP");
    service.wait_for_log("it is a pipe; expected a regular file");
    let reload = reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(reload.status, 422, "{}", reload.text());
    assert_eq!(left(&service), "7");
    service.signal("TERM");
    assert!(service.wait_for_exit().success());
}

#[test]
fn an_invalid_file_changes_nothing_and_the_error_has_its_position() {
    let service = used_three_of_ten();
    for bad in [
        "limits: [{name: api, key: [user], algorithm: sliding_log, limit: ten, window: 1h}]",
        "limits: [",
        "",
    ] {
        service.rewrite_config(bad);
        service.signal("HUP");
        service.wait_for_log("reload failed");
        assert_eq!(left(&service), "7");
    }
    service.wait_for_log("tollgate.yaml:1:");
    std::fs::remove_file(service.config_path()).expect("it is there");
    service.signal("HUP");
    assert_eq!(left(&service), "7");
    service.rewrite_config(&limits(11));
    wait_until_left(&service, "8");
}

#[test]
fn limits_come_and_go_and_change_their_window() {
    let service = used_three_of_ten();
    let both = "limits:\n\
        - {name: api, key: [user], algorithm: sliding_log, limit: 10, window: 2h}\n\
        - {name: burst, key: [user], algorithm: token_bucket, capacity: 1, refill_rate: 1/hour}";
    service.rewrite_config(both);
    service.wait_for_log("configuration reloaded");
    let answer = service.check(ANN).text();
    assert!(
        answer.contains(r#""name":"burst","limit":1,"remaining":0"#),
        "{answer}"
    );
    assert!(
        answer.contains(r#""name":"api","limit":10,"remaining":9"#),
        "another window starts from zero: {answer}"
    );
    assert_eq!(service.check(ANN).status, 429);
    service.rewrite_config(&limits(10));
    wait_until_left(&service, "7");
}

/// A limit that stays, and one that changes with every version.
fn changing(version: u64) -> String {
    format!(
        "limits:\n\
         - {{name: stays, key: [user], algorithm: sliding_log, limit: 1000000, window: 1h}}\n\
         - {{name: changes, key: [user], algorithm: token_bucket, capacity: {}, refill_rate: {}/s}}",
        1_000_000 + version,
        1 + version
    )
}

/// Sends checks until `over` is set, and fails at the first that is not allowed.
fn check_until(service: &Tollgate, asked: &AtomicU64, over: &AtomicBool) {
    let mut connection = Connection::open(service.http).expect("a connection");
    while !over.load(Relaxed) {
        let answer = connection.check(ANN).expect("no connection breaks");
        assert_eq!(answer.status, 200, "{answer:?}");
        asked.fetch_add(1, Relaxed);
    }
}

/// Reloads as fast as the admin port accepts them, on any machine more than a hundred per second.
#[test]
fn hundreds_of_reloads_under_load_lose_no_request_and_no_count() {
    const RELOADS: u64 = 300;
    let service = Tollgate::with_config(&changing(0));
    let (asked, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check_until(&service, &asked, &over));
        }
        for version in 1..=RELOADS {
            service.rewrite_config(&changing(version));
            let reloaded = reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
            assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        }
        over.store(true, Relaxed);
    });
    let left = service
        .post(
            "/v1/peek",
            r#"{"attributes": {"user": "ann"}, "limits": ["stays"], "cost": 0}"#,
        )
        .text();
    let expected = format!(r#""remaining":{},"#, 1_000_000 - asked.load(Relaxed));
    assert!(left.contains(&expected), "{expected} expected: {left}");
    // The file is polled as well, so there may be more.
    let status = reverse_proxy::get(service.admin, "/admin/status", &[]).text();
    let reloads = status
        .split(r#""reloads":"#)
        .nth(1)
        .and_then(|rest| rest.split(',').next()?.parse().ok());
    assert!(
        reloads >= Some(RELOADS) && status.contains(r#""failed":0"#),
        "{status}"
    );
    println!(
        "{RELOADS} reloads while {} requests were decided",
        asked.load(Relaxed)
    );
}
