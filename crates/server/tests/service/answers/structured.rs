//! The fields `RateLimit` and `RateLimit-Policy`, parsed by an independent library.

use std::io::Write as _;
use std::process::{Command, Stdio};

use testkit::reverse_proxy::find_python_tools;

use super::degraded::unavailable;
use super::forward_auth::ask;
use super::{LIMITS, about, with_cost};
use crate::harness::Tollgate;

/// Parses lines of structured fields with an independent library and returns their content.
const PARSER: &str = r"
import sys, http_sfv
for line in sys.stdin.buffer:
    fields = http_sfv.List()
    fields.parse(line.strip())
    for item in fields:
        assert type(item.value) is str and item.value, item.value
        for name, value in item.params.items():
            assert type(value) is str if name == 'qu' else type(value) is int and value >= 0, (name, value)
        print(item.value, *sorted(item.params))
";

#[test]
fn the_fields_are_structured() {
    let (service, unavailable) = (Tollgate::with_config(LIMITS), unavailable("local"));
    let many = r#"{"attributes": {"client_ip": "203.0.113.7"}, "limits": ["api", "watched", "queue", "work"]}"#;
    let answers = [
        service.check(&about("/api/1")),
        service.check(&with_cost("/api/1", 9)),
        service.check(&with_cost("/api/1", 1 << 53)),
        service.check(many),
        service.check(many),
        service.check(&about("/queue")),
        ask(&service, "/v1/forward-auth", "/work/1"),
        unavailable.check(&about("/")),
    ];
    let values: Vec<&str> = answers
        .iter()
        .flat_map(|a| ["ratelimit-policy", "ratelimit"].map(|name| a.header(name).expect(name)))
        .collect();
    let mut python = Command::new(find_python_tools());
    python
        .args(["-c", PARSER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut python = python.spawn().expect("python runs");
    let mut input = python.stdin.take().expect("it is piped");
    input
        .write_all((values.join("\n") + "\n").as_bytes())
        .expect("it reads");
    drop(input);
    let output = python.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{values:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[..3], ["api q w", "api r t", "api q w"], "{told}");
    assert!(
        lines.contains(&"api r") && lines.contains(&"work q qu") && lines.contains(&"queue r t"),
        "{told}"
    );
    assert!(!told.contains("watched"), "a shadow limit is not told of");
}
