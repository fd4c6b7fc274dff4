//! `tollgate simulate` from the outside: what it prints, writes and reads.

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::Value;

use super::golden::golden;
use super::{command, root, text, tollgate};

const DATA: &str = "crates/server/tests/cli/data/simulate";

fn data(name: &str) -> String {
    format!("{DATA}/{name}")
}

/// The command with these options on the log of the tests.
fn simulate(options: &[&str]) -> Vec<String> {
    let mut arguments = vec!["simulate".to_owned(), "--config".to_owned(), data("a.yaml")];
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    arguments
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn object(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn tables() {
    let (log, other) = (data("access.log"), data("b.yaml"));
    golden("simulate", &words(&simulate(&[&log])));
    golden(
        "simulate-against",
        &words(&simulate(&["--against", &other, "--top", "2", &log])),
    );
    golden(
        "simulate-suggest",
        &words(&simulate(&["--suggest", "--top", "0", &log])),
    );
    golden("simulate-built-in", &["simulate", &log]);
    golden(
        "simulate-json",
        &words(&simulate(&[
            "--json",
            "--against",
            &other,
            "--suggest",
            &log,
        ])),
    );
}

#[test]
fn errors() {
    let log = data("access.log");
    golden(
        "simulate-unreadable",
        &words(&simulate(&[&data("unreadable.log")])),
    );
    golden("simulate-empty", &words(&simulate(&["/dev/null"])));
    golden("simulate-no-log", &words(&simulate(&[])));
    golden("simulate-nowhere", &words(&simulate(&["nowhere.log"])));
    golden("simulate-directory", &words(&simulate(&["crates"])));
    golden(
        "simulate-field",
        &words(&simulate(&["--field", "clientip=x", &log])),
    );
    golden(
        "simulate-no-field",
        &words(&simulate(&["--field", "time", &log])),
    );
    golden(
        "simulate-wrong-config",
        &[
            "simulate",
            "-c",
            "crates/server/tests/cli/data/wrong.yaml",
            &log,
        ],
    );
    golden("simulate-two-stdins", &["simulate", "-c", "-", "-"]);
}

/// The same log as a file, packed, and on standard input, packed or not.
#[test]
fn bytes_after_a_gzip_log_are_a_warning() {
    let compressed = std::fs::read(root().join(data("access.log.gz"))).expect("a log");
    let padded = std::env::temp_dir().join(format!("tollgate-padded-{}.gz", std::process::id()));
    std::fs::write(&padded, [&compressed[..], &[0; 512]].concat()).expect("a writable directory");
    let name = padded.display().to_string();

    let report = |log: &str| tollgate(&words(&simulate(&["--json", "--suggest", log])));
    let (found, expected) = (report(&name), report(&data("access.log.gz")));
    std::fs::remove_file(&padded).expect("it is ours");

    let position = compressed.len();
    assert_eq!(
        text(&found.stderr),
        format!(
            "warning: {name}: ignored 512 bytes after the end of the gzip data at byte {position}\n"
        )
    );
    assert_eq!(
        object(&found)["configuration"],
        object(&expected)["configuration"]
    );
}

#[test]
fn files_gzip_and_stdin_give_the_same_report() {
    let plain = object(&tollgate(&words(&simulate(&[
        "--json",
        &data("access.log"),
    ]))));
    let packed = object(&tollgate(&words(&simulate(&[
        "--json",
        &data("access.log.gz"),
    ]))));
    assert_eq!(plain["configuration"], packed["configuration"]);
    for file in ["access.log", "access.log.gz"] {
        let bytes = std::fs::read(root().join(data(file))).expect("the data is there");
        let arguments = simulate(&["--json", "--suggest", "-"]);
        let mut process = command(&words(&arguments))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        process
            .stdin
            .take()
            .expect("it is piped")
            .write_all(&bytes)
            .expect("it reads");
        let piped = object(&process.wait_with_output().expect("it ends"));
        assert_eq!(plain["configuration"], piped["configuration"], "{file}");
        // What cannot be read twice is measured and not tried.
        let candidate = &piped["suggestions"][0]["candidates"][0];
        assert!(
            candidate["limit"].is_u64() && candidate.get("denied").is_none(),
            "{candidate}"
        );
    }
}

/// Two halves of a log are that log, in their order.
#[test]
fn several_files_are_one_log() {
    let whole =
        std::fs::read_to_string(root().join(data("access.log"))).expect("the data is there");
    let cut = whole.match_indices('\n').nth(25).expect("it has lines").0 + 1;
    let folder = std::env::temp_dir().join(format!("tollgate-simulate-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the halves");
    let halves = [folder.join("1.log"), folder.join("2.log")];
    std::fs::write(&halves[0], &whole[..cut]).expect("a half can be written");
    std::fs::write(&halves[1], &whole[cut..]).expect("a half can be written");
    let [first, second] = halves
        .each_ref()
        .map(|half| half.to_str().expect("a path of ours"));
    let together = object(&tollgate(&words(&simulate(&["--json", first, second]))));
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let one = object(&tollgate(&words(&simulate(&[
        "--json",
        &data("access.log"),
    ]))));
    assert_eq!(together["configuration"], one["configuration"]);
    assert_eq!(together["log"]["lines"], one["log"]["lines"]);
}

#[test]
fn the_page_is_self_contained_and_runs_nothing() {
    let file = std::env::temp_dir().join(format!("tollgate-report-{}.html", std::process::id()));
    let path = file.to_str().expect("a path of ours");
    let (log, other) = (data("access.log"), data("b.yaml"));
    let arguments = simulate(&["--html", path, "--against", &other, "--suggest", &log]);
    let output = tollgate(&words(&arguments));
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    drop(std::fs::remove_file(&file));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for part in [
        "<!doctype html>",
        "default-src 'none'",
        "prefers-color-scheme: dark",
        "<h2>All requests</h2>",
        "per-address: allowed and denied over time",
        "b.yaml</h2>",
        "Limits suggested from usage",
        "Invalid lines",
        "header:user-agent=&lt;script&gt;alert(1)&lt;/script&gt;",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    let lower = page.to_lowercase();
    for foreign in [
        "<script",
        "src=",
        "href=",
        "http://",
        "https://",
        "url(",
        "\u{1b}",
        "javascript",
    ] {
        assert!(!lower.contains(foreign), "{foreign} on the page");
    }
    assert_balanced(&page);
}

/// Every element that is opened is closed, in its order.
fn assert_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.split("</style>").nth(1).expect("there is a style");
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap_or_default();
        if tag.starts_with('/') {
            // The head was opened before the style.
            let last = open.pop();
            assert!(
                last == Some(name) || (last.is_none() && ["head", "html"].contains(&name)),
                "</{name}> after {last:?}"
            );
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0], "open at the end");
}

#[test]
fn fields_of_json_can_be_named() {
    let line = r#"{"when":1791640000,"who":{"a":"203.0.113.7"},"labels":{"t":"acme"},"path":"/"}"#;
    let arguments = simulate(&[
        "--json",
        "--format",
        "json",
        "--field",
        "time=when",
        "--field",
        "client_ip=who.a",
        "--field",
        "tenant=labels.t",
        "-",
    ]);
    let mut process = command(&words(&arguments))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let log = format!("{line}\n").repeat(12);
    process
        .stdin
        .take()
        .expect("it is piped")
        .write_all(log.as_bytes())
        .expect("it reads");
    let found = object(&process.wait_with_output().expect("it ends"));
    let limits = &found["configuration"]["limits"];
    assert_eq!(
        (&limits[0]["name"], &limits[0]["denied"]),
        (&"per-address".into(), &7.into())
    );
    assert_eq!(
        (&limits[2]["name"], &limits[2]["requests"]),
        (&"tenant".into(), &12.into())
    );
    assert_eq!(limits[0]["top_keys"][0]["key"], "client_ip=203.0.113.7");
}
