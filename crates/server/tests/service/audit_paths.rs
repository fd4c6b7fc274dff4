//! `tollgate audit-paths` against small servers whose faults are known.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};

use serde_json::Value;

/// What a server answers to a request: a status and a body.
type Answer = (u16, String);

/// Serves on a free port until the test ends. `answer` gets the target and the lines of the head.
fn serve(mut answer: impl FnMut(&str, &[String]) -> Answer + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            respond(stream, &mut answer);
        }
    });
    address
}

fn respond(mut stream: TcpStream, answer: &mut impl FnMut(&str, &[String]) -> Answer) {
    let mut head = Vec::new();
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    loop {
        let mut line = Vec::new();
        let read = reader.read_until(b'\n', &mut line).unwrap_or_default();
        if read == 0 || line == b"\r\n" {
            break;
        }
        head.push(String::from_utf8_lossy(&line).trim_end().to_owned());
    }

    let target = head.first().and_then(|line| line.split(' ').nth(1));
    let (status, body) = answer(target.unwrap_or_default(), &head);
    let length = body.len();
    let response = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
    drop(stream.write_all(response.as_bytes()));
    drop(stream.shutdown(std::net::Shutdown::Write));
    // Reads what the client still sends, so that the response is not lost to a reset.
    drop(stream.read_to_end(&mut Vec::new()));
}

/// Counts requests by a key, and denies those above a limit.
#[derive(Default)]
struct Counters(BTreeMap<String, u32>);

impl Counters {
    fn allows(&mut self, key: &str, limit: u32) -> bool {
        let count = self.0.entry(key.to_owned()).or_default();
        *count += 1;
        *count <= limit
    }
}

fn audit(server: SocketAddr, target: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["audit-paths", "--timeout", "20s", "--url"]);
    command.arg(format!("http://{server}{target}"));
    command
        .args(arguments)
        .output()
        .expect("the binary was built")
}

/// The exit code, and the requests that got past the limit.
fn uncounted(server: SocketAddr, target: &str, arguments: &[&str]) -> (i32, Vec<String>) {
    let output = audit(server, target, &[arguments, &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let variants = report["uncounted"].as_array().expect("a list").iter();
    let requests = variants.map(|variant| variant["request"].as_str().expect("text").to_owned());
    (output.status.code().expect("no signal"), requests.collect())
}

fn ok(body: &str) -> Answer {
    (200, body.to_owned())
}

fn denied() -> Answer {
    (429, "denied".to_owned())
}

#[test]
fn a_spelling_with_a_counter_of_its_own_is_reported() {
    let mut counters = Counters::default();
    let server = serve(move |target, _| match target {
        "/auth/login" | "/auth//login" if counters.allows("login", 3) => ok("welcome"),
        "/auth%2flogin" if counters.allows(target, 3) => ok("welcome"),
        "/auth/login" | "/auth//login" | "/auth%2flogin" => denied(),
        "/AUTH/LOGIN" => ok("another page"),
        _ => (404, String::new()),
    });
    let wanted = (1, vec!["POST /auth%2flogin".to_owned()]);
    assert_eq!(uncounted(server, "/auth/login", &[]), wanted);
}

#[test]
fn a_limit_that_counts_every_spelling_passes() {
    let mut allowed = 5;
    let server = serve(move |_, _| {
        let is_denied = allowed == 0;
        allowed -= u32::from(!is_denied);
        if is_denied { denied() } else { ok("welcome") }
    });
    let output = audit(server, "/auth/login", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let first = "plain      POST /auth/login: 200 from the handler, denied after 5 requests\n";
    assert!(
        text.starts_with(first) && text.ends_with("\nuncounted  0\n"),
        "{text}"
    );
}

#[test]
fn a_fresh_value_beside_a_cookie_is_reported() {
    let mut counters = Counters::default();
    // Counts by the whole line, reads the first pair.
    let server = serve(move |_, head| {
        let line = head.iter().find(|line| line.starts_with("Cookie: "));
        let line = line.map(String::as_str).unwrap_or_default();
        if counters.allows(line, 2) {
            ok(line.split([' ', ';']).nth(1).unwrap_or_default())
        } else {
            denied()
        }
    });
    let arguments = [
        "--method",
        "GET",
        "--cookie",
        "session=abc",
        "--class",
        "cookie",
    ];
    let (exit, requests) = uncounted(server, "/me", &arguments);
    assert_eq!(exit, 1);
    let second = "GET /me  Cookie: session=abc; session={fresh}".to_owned();
    let first = "GET /me  Cookie: session={fresh}; session=abc".to_owned();
    assert!(
        requests.contains(&second) && !requests.contains(&first),
        "{requests:#?}"
    );
}

#[test]
fn a_limit_that_recovers_is_not_reported() {
    // Every thirtieth request is allowed, whatever its spelling.
    let mut sent = 0_u32;
    let server = serve(move |_, _| {
        sent += 1;
        if sent <= 3 || sent.is_multiple_of(30) {
            ok("welcome")
        } else {
            denied()
        }
    });
    let (_, requests) = uncounted(server, "/auth/login", &["--class", "dot-segment"]);
    assert!(requests.is_empty(), "{requests:?}");
}

#[test]
fn what_cannot_be_audited_is_an_error() {
    let reason = |server: SocketAddr, arguments: &[&str]| {
        let output = audit(server, "/auth/login", arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        error
    };

    let unlimited = serve(|_, _| ok("welcome"));
    let error = reason(unlimited, &["--plain-max", "7"]);
    assert!(
        error.starts_with("error: 7 plain requests were allowed"),
        "{error}"
    );

    let exhausted = serve(|_, _| denied());
    let error = reason(exhausted, &[]);
    assert!(
        error.starts_with("error: the first request was denied"),
        "{error}"
    );

    let mut status = 199;
    let unstable = serve(move |_, _| {
        status += 1;
        (status, String::new())
    });
    let error = reason(unstable, &[]);
    assert!(
        error.starts_with("error: the plain request got 200 and then 201"),
        "{error}"
    );

    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let error = reason(address, &[]);
    assert!(error.contains("no response from"), "{error}");
}

#[test]
fn a_file_of_rules_may_be_endless() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let output = audit(nobody, "/login", &["--rules", "/dev/zero"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("cannot read /dev/zero: it has more than 1048576 bytes"),
        "{text}"
    );
}
