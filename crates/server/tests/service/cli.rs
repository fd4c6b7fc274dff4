//! The commands that send requests to a service: their output and exit codes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};

use crate::harness::Tollgate;
use crate::page;

const ANN: &str = "client_ip=203.0.113.7";

pub(crate) fn tollgate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(arguments)
        .env_remove("TOLLGATE_ADMIN_TOKEN")
        .output()
        .expect("the binary was built")
}

/// Exit code, standard output, standard error.
fn result_of(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the binary prints UTF-8");
    (
        output.status.code().expect("no signal"),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn check(url: &impl ToString, arguments: &[&str]) -> (i32, String, String) {
    result_of(&tollgate(
        &[&["check", "--url", &url.to_string()], arguments].concat(),
    ))
}

/// Removes durations, which depend on the time of the test run.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_end_matches([',', ';', '\n']);
        word.trim_start_matches(|c: char| c.is_ascii_digit()).len() < word.len()
            && ["ms", "s", "m", "h"]
                .contains(&word.trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    let masked = text.split_inclusive([' ', '\n']).map(|word| {
        if !is_time(word.trim_end()) {
            word
        } else if word.ends_with('\n') {
            "\n"
        } else {
            ""
        }
    });
    masked.collect()
}

#[test]
fn docs_show_the_real_output_of_check() {
    let service = Tollgate::start();
    let examples = page::examples()
        .into_iter()
        .filter(|example| example.arguments[0] == "check");
    let mut compared = 0;
    for example in examples {
        let (code, out, err) = check(&service.http, &example.arguments[1..]);
        assert_eq!(
            without_times(&(out + &err)),
            without_times(&example.printed),
            "{:?}",
            example.arguments
        );
        assert_eq!(code, example.code.unwrap_or(0), "{:?}", example.arguments);
        compared += 1;
    }
    assert!(compared >= 3, "{compared}");
}

#[test]
fn a_limit_may_come_from_the_command_line() {
    let service = Tollgate::start();
    let chat =
        r#"{"name": "chat", "key": "ann", "algorithm": "sliding_log", "limit": 1, "window": "1h"}"#;
    let (code, out, _) = check(&service.http, &["--inline", chat]);
    assert!(
        code == 0 && out.starts_with("allowed\n  chat  0 of 1 left"),
        "{out}"
    );
    let (code, out, _) = check(
        &service.http,
        &["--inline", chat, "--limit", "default", "-a", ANN],
    );
    assert!(code == 1 && out.starts_with("denied by chat"), "{out}");

    let default = r#"{"name": "default", "key": "203.0.113.7"}"#;
    let (code, out, _) = check(&service.http, &["--inline", default]);
    assert!(
        code == 0 && out.contains("default  99 of 100 left"),
        "{out}"
    );

    for (wrong, expected) in [
        (
            "chat",
            "error: --inline: expected value at line 1 column 1; expected a JSON object",
        ),
        (
            "[1]",
            "error: --inline: expected a JSON object, such as {\"name\": \"chat\"",
        ),
        (r#"{"name": "chat", "widow": 1}"#, "did you mean `window`?"),
    ] {
        let (code, _, err) = check(&service.http, &["--inline", wrong]);
        assert!(code == 2 && err.contains(expected), "{code} {err}");
    }
}

const BUDGET: &str = "
limits:
  - { name: tokens, key: [user], algorithm: fixed_window, limit: 1000, window: 1h, unit: tokens,
      cost: { tokens: { input: 1, output: 4 } } }
  - { name: bytes, key: [user], algorithm: fixed_window, limit: 1000, window: 1h, unit: bytes }
";

/// Runs a command of a service.
fn command(service: &Tollgate, name: &str, arguments: &[&str]) -> (i32, String, String) {
    let url = service.http.to_string();
    result_of(&tollgate(&[&[name, "--url", &url], arguments].concat()))
}

/// What is left of the tokens and of the bytes.
fn left(service: &Tollgate) -> [u64; 2] {
    let (_, out, _) = check(&service.http, &["--peek", "--json", "-a", "user=ann"]);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let left = |index: usize| answer["limits"][index]["remaining"].as_u64();
    [0, 1].map(|index| left(index).expect("a number"))
}

#[test]
fn a_cost_that_is_known_afterwards() {
    let service = Tollgate::with_config(BUDGET);
    let estimate = [
        "-a",
        "user=ann",
        "--cost",
        "100",
        "--tokens",
        "input=50",
        "--tokens",
        "output=25",
    ];
    let reserve = || {
        let arguments = [&estimate[..], &["--ttl", "10m", "--json"]].concat();
        let (code, out, err) = command(&service, "reserve", &arguments);
        assert_eq!((code, err.as_str()), (0, ""));
        let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
        answer["reservation"].as_str().unwrap().to_owned()
    };

    let id = reserve();
    assert_eq!(left(&service), [850, 900]);
    let settle = [&id, "--actual", "1500", "--tokens", "output=100"];
    let (code, out, err) = command(&service, "settle", &settle);
    let expected = "settled: 1,500 units charged for the whole call\n";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
    assert_eq!(left(&service), [600, 0]);

    let (code, out, _) = command(&service, "settle", &settle);
    let expected = "settled: it was settled before, and nothing was changed\n";
    assert_eq!((code, out.as_str()), (0, expected));
    let (code, out, _) = command(&service, "reserve", &estimate);
    assert!(
        code == 1 && out.starts_with("denied by bytes: try"),
        "{out}"
    );

    let service = Tollgate::with_config(BUDGET);
    let (code, out, _) = command(&service, "reserve", &estimate);
    let (_, id) = out
        .rsplit_once("tollgate settle ")
        .expect("what to do next");
    let id = id
        .trim_end()
        .strip_suffix(" --actual N")
        .expect("the token");
    assert!(
        code == 0 && out.starts_with("allowed\n  tokens  850 of 1000 left"),
        "{out}"
    );
    let (code, out, err) = command(&service, "cancel", &[id]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "cancelled\n", ""));
    assert_eq!(left(&service), [1_000, 1_000]);
    let (code, out, _) = command(&service, "cancel", &["--json", id]);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["reservation"]), (0, &"cancelled".into()));
}

#[test]
fn a_count_is_charged_whether_it_fits_or_not() {
    let service = Tollgate::with_config(BUDGET);
    let count = ["--count", "-l", "bytes", "-a", "user=ann", "--cost", "700"];
    let (code, out, _) = check(&service.http, &count);
    assert!(
        code == 0 && out.starts_with("counted\n  bytes  300 of 1000 left"),
        "{out}"
    );
    let (code, out, _) = check(&service.http, &count);
    assert!(
        code == 1 && out.starts_with("counted, beyond bytes\n  bytes  0 of 1000 left"),
        "{out}"
    );
    let (code, out, _) = check(&service.http, &[&count[..], &["--json"]].concat());
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["allowed"]), (1, &false.into()));
}

#[test]
fn reservations_that_cannot_be_settled_are_errors() {
    let service = Tollgate::with_config(BUDGET);
    for (name, arguments, expected) in [
        ("settle", &["BI5u", "--actual", "1"][..], "422"),
        ("cancel", &["not a token"], "422"),
        (
            "reserve",
            &["-a", "user=ann", "--ttl", "2h"],
            "invalid `ttl` \"2h\"",
        ),
        (
            "reserve",
            &["-a", "user=ann", "--ttl", "0s"],
            "invalid `ttl` \"0s\"",
        ),
        (
            "reserve",
            &["-a", "user=ann", "--tokens", "a=1", "--tokens", "a=2"],
            "--tokens: duplicate kind `a`",
        ),
        (
            "reserve",
            &["--limit", "tokns", "-a", "user=ann"],
            "unknown limit",
        ),
    ] {
        let (code, out, err) = command(&service, name, arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{name}: {err}");
        assert!(err.contains(expected), "{name}: {err}");
    }

    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for arguments in [
        &["settle", "BI5u", "--actual", "1"][..],
        &["cancel", "BI5u"],
        &["reserve"],
    ] {
        let url = nobody.to_string();
        let (code, _, err) = result_of(&tollgate(&[arguments, &["--url", &url]].concat()));
        assert!(code == 3 && err.contains("no response from"), "{err}");
    }
}

#[test]
fn peek_consumes_nothing_and_json_is_the_response() {
    let service = Tollgate::start();
    let url = format!("http://{}/", service.http);
    for _ in 0..2 {
        let (code, out, _) = check(&url, &["--peek", "-a", ANN]);
        assert!(
            code == 0 && out.starts_with("would be allowed\n  default  100 of 100 left"),
            "{out}"
        );
    }
    let (code, out, err) = check(&url, &["--json", "--cost", "100", "-a", ANN]);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &answer["limits"][0]["remaining"], err.as_str()),
        (0, &0.into(), "")
    );
    let (code, out, err) = check(&url, &["--json", "--peek", "--cost", "100", "-a", ANN]);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &answer["violated-policies"], err.as_str()),
        (1, &serde_json::json!(["default"]), "")
    );
}

#[test]
fn a_rejected_request_shows_the_detail_of_the_service() {
    let service = Tollgate::start();
    let (code, out, err) = check(&service.http, &["-a", "tenant=acme"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("422") && err.contains("`client_ip`"), "{err}");
    let (code, out, _) = check(&service.http, &["--json", "-a", "tenant=acme"]);
    let problem: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &problem["code"]), (2, &"missing-attribute".into()));
}

#[test]
fn named_limits_with_headers_queues_and_permits() {
    let service = Tollgate::with_config(
        "limits:
  - { name: key, match: { path: /never }, key: [\"header:x-key\"],
      algorithm: sliding_log, limit: 1, window: 1h }
  - { name: line, match: { path: /never }, key: [],
      algorithm: leaky_bucket, mode: queue, capacity: 9, leak_rate: 1/h }
  - { name: places, match: { path: /never }, key: [],
      algorithm: concurrency, limit: 2, permit_timeout: 1h }
  - { name: trial, match: { path: /never }, key: [],
      algorithm: sliding_log, limit: 1, window: 1h, shadow: true }
",
    );
    let (code, out, _) = check(&service.http, &["-a", "path=/"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "allowed: no limit applies to this request\n")
    );
    let key = ["--limit", "key", "-a", "header:X-Key=k"];
    assert_eq!(check(&service.http, &key).0, 0);
    let (code, out, _) = check(&service.http, &key);
    assert!(
        code == 1 && out.starts_with("denied by key: try again in "),
        "{out}"
    );
    assert_eq!(check(&service.http, &["--limit", "line"]).0, 0);
    let (_, out, _) = check(&service.http, &["--limit", "line"]);
    assert!(
        out.contains("\ndelay the request by ") && out.contains(" before processing it\n"),
        "{out}"
    );
    let (_, out, _) = check(&service.http, &["-l", "places", "-l", "trial"]);
    assert!(
        out.contains("a permit is held until POST /v1/release with {\"permit\": \""),
        "{out}"
    );
    assert!(
        out.contains("  places  1 of 2 left") && out.contains("shadow: never denies"),
        "{out}"
    );
    let (code, out, _) = check(&service.http, &["-l", "trial"]);
    assert!(code == 0 && out.contains("shadow: would deny"), "{out}");
    let (code, out, _) = check(
        &service.http,
        &["-l", "key", "-a", "header:x-key=j", "--cost", "2"],
    );
    assert!(
        code == 1 && out.starts_with("denied by key: the cost exceeds what key ever allows\n"),
        "{out}"
    );
}

/// The failure policy has decided, although nothing could be counted.
#[test]
fn a_denial_by_failure_policy_is_a_denial() {
    let service = Tollgate::with_config(
        "store: { type: redis, endpoints: [\"redis://127.0.0.1:1\"] }
limits:
  - { name: login, key: [], algorithm: sliding_log, limit: 5, window: 1h, on_store_failure: deny }
",
    );
    let (code, out, err) = check(&service.http, &[]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(
        out.starts_with(
            "denied by login: the store is unavailable and the failure policy is deny; \
             try again in "
        ),
        "{out}"
    );
}

/// A server that accepts one request and responds with these bytes; the request is then sent to the
/// channel.
fn serve_once(answer: impl Into<Vec<u8>>) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (sender, requests) = channel();
    let answer = answer.into();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client comes");
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer) {
                Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
                _ => break,
            }
        }
        drop(stream.write_all(&answer));
        drop(sender.send(String::from_utf8_lossy(&request).into_owned()));
        // Until the client goes: an answer without a length would otherwise end here.
        drop(stream.read(&mut buffer));
    });
    (address, requests)
}

fn http(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn anything_but_a_decision_is_no_response() {
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("it is bound");
    let (code, out, err) = check(&free, &["-a", ANN]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(
        err.contains("Connection refused") && err.contains("is the service running there?"),
        "{err}"
    );
    // Only missing responses run into the timeout; the others must not time out on a slow machine.
    let (short, long) = ("50ms", "20s");
    for (answer, timeout, expected) in [
        (String::new(), short, "timed out after 50ms"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_owned(),
            short,
            "timed out after 50ms",
        ),
        ("+PONG\r\n".to_owned(), long, "is this the right port?"),
        (http("200 OK", "{}"), long, "is not a decision"),
        (http("404 Not Found", "<html>"), long, "is not a decision"),
        (http("429 Too Many Requests", ""), long, "is not a decision"),
        (
            http(
                "503 Service Unavailable",
                r#"{"detail": "too busy\u001b[2J"}"#,
            ),
            long,
            "too busy\\u{1b}[2J",
        ),
        (http("200 OK", &" ".repeat(2 << 20)), long, "larger than"),
    ] {
        let (address, _requests) = serve_once(answer);
        let (code, out, err) = check(&address, &["--timeout", timeout, "-a", ANN]);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        assert!(
            err.starts_with("error: ") && err.contains(expected),
            "{expected}: {err}"
        );
    }
}

const COUNTER: &str = r#"{"limit": "login",
    "key": [{"attribute": "client_ip", "value": "203.0.113.7", "hashed": false}],
    "remaining": 3, "reset_after_ms": 61000, "retry_after_ms": null, "something_new": true}"#;

#[test]
fn keys_are_shown_and_reset() {
    let (address, requests) = serve_once(http("200 OK", COUNTER));
    let admin = address.to_string();
    let arguments = [
        "--admin",
        &admin,
        "--limit",
        "a/b",
        "-a",
        ANN,
        "-a",
        "header:X-Key=k&1 ü",
    ];
    let (code, out, err) = result_of(&tollgate(&[&["keys", "get"], &arguments[..]].concat()));
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "limit          login\nkey            client_ip = 203.0.113.7\nremaining      3\n\
         reset_after    1m 1s\nretry_after    none\nsomething_new  true\n"
    );
    let request = requests.recv().expect("a request was sent");
    let line = "GET /admin/keys?limit=a%2Fb&client_ip=203.0.113.7\
                &header%3Ax-key=k%261%20%C3%BC HTTP/1.1\r\n";
    assert!(request.starts_with(line), "{request}");
    assert!(
        !request.to_ascii_lowercase().contains("authorization"),
        "{request}"
    );

    let (address, requests) = serve_once(http("200 OK", COUNTER));
    let admin = address.to_string();
    let (code, out, _) = result_of(&tollgate(&[
        "keys", "reset", "--admin", &admin, "--limit", "login", "-a", ANN, "--json",
    ]));
    let counter: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &counter["remaining"]), (0, &3.into()));
    assert!(
        requests
            .recv()
            .expect("a request was sent")
            .starts_with("DELETE /admin/keys?limit=login&")
    );

    let (address, _requests) = serve_once("HTTP/1.1 204 No Content\r\n\r\n");
    let (code, out, _) = result_of(&tollgate(&[
        "keys",
        "reset",
        "--admin",
        &address.to_string(),
        "--limit",
        "login",
    ]));
    assert_eq!((code, out.as_str()), (0, "reset\n"));
}

#[test]
fn the_token_is_sent_and_never_shown() {
    let token = "sesame-0123456789";
    for (status, code) in [("200 OK", 0), ("401 Unauthorized", 2)] {
        let (address, requests) = serve_once(http(status, r#"{"limit": "login"}"#));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args([
            "keys",
            "get",
            "--admin",
            &address.to_string(),
            "--limit",
            "login",
        ]);
        let (found, out, err) = result_of(
            &command
                .env("TOLLGATE_ADMIN_TOKEN", token)
                .output()
                .expect("the binary was built"),
        );
        assert_eq!(found, code, "{err}");
        assert!(!out.contains(token) && !err.contains(token), "{out}{err}");
        let request = requests.recv().expect("a request was sent");
        assert!(
            request.contains("authorization: Bearer sesame-0123456789\r\n"),
            "{request}"
        );
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(["keys", "get", "--limit", "login"])
        .env("TOLLGATE_ADMIN_TOKEN", "two\nlines-sesame");
    let (code, _, err) = result_of(&command.output().expect("the binary was built"));
    assert!(
        code == 2 && err.contains("a header cannot contain") && !err.contains("sesame"),
        "{err}"
    );
}

#[test]
fn errors_of_the_admin_port() {
    for (answer, code, expected) in [
        (
            http("401 Unauthorized", "{}"),
            2,
            "requires a token; set TOLLGATE_ADMIN_TOKEN",
        ),
        (
            http(
                "422 Unprocessable Content",
                r#"{"detail": "unknown limit"}"#,
            ),
            2,
            "unknown limit",
        ),
        (
            http("404 Not Found", ""),
            3,
            "unexpected response from the admin port (404 Not Found)",
        ),
        (
            http("500 Internal Server Error", "{}"),
            3,
            "unexpected response from the admin port (500",
        ),
        (
            http(
                "503 Service Unavailable",
                r#"{"code": "store-unavailable", "detail": "timed out"}"#,
            ),
            3,
            "the store is unavailable (503 Service Unavailable): timed out",
        ),
        (http("200 OK", "[]"), 3, "not from an admin port"),
    ] {
        let (address, _requests) = serve_once(answer);
        let (found, out, err) = result_of(&tollgate(&[
            "keys",
            "get",
            "--admin",
            &address.to_string(),
            "--limit",
            "login",
        ]));
        assert_eq!((found, out.as_str()), (code, ""), "{err}");
        assert!(err.contains(expected), "{err}");
    }
    let (code, _, err) = result_of(&tollgate(&[
        "keys", "get", "--limit", "login", "-a", "limit=5",
    ]));
    assert!(
        code == 2 && err.contains("would be taken for the name of the limit"),
        "{err}"
    );
}
