use tollgate_rules::Attributes as _;

use super::*;
use crate::log::{LogFields, LogParser};

const COMBINED: &str = r#"203.0.113.7 - ann [10/Oct/2026:13:55:36 -0700] "POST /a/b?x=1&y=a%20b HTTP/1.1" 200 512 "https://example.com/" "curl/8 \"x\" \x41""#;

fn read(line: &str, format: AccessLogFormat) -> Result<CommonLine<'_>, LineError> {
    CommonLine::parse(line.as_bytes(), format, &ClfTimeParser::default())
}

fn attribute(line: &str, name: &str) -> Option<String> {
    let parser = LogParser::new(AccessLogFormat::Auto, LogFields::default());
    let record = parser.parse(line.as_bytes()).unwrap();
    match record.get(&name.parse().unwrap())? {
        Value::Text(text) => Some(text.into_owned()),
        Value::Address(address) => Some(format!("<{address}>")),
        Value::Texts(values) => Some(values.as_slice().first()?.to_string()),
    }
}

#[test]
fn a_line_has_the_attributes_of_its_request() {
    for (name, value) in [
        ("client_ip", Some("<203.0.113.7>")),
        ("method", Some("POST")),
        ("path", Some("/a/b")),
        ("query:x", Some("1")),
        ("query:y", Some("a b")),
        ("query:z", None),
        ("host", None),
        ("header:user-agent", Some("curl/8 \"x\" A")),
        ("header:referer", Some("https://example.com/")),
        ("header:x-api-key", None),
        ("cookie:sid", None),
        ("user", Some("ann")),
        ("status", Some("200")),
        ("bytes", Some("512")),
        ("tenant", None),
    ] {
        assert_eq!(attribute(COMBINED, name).as_deref(), value, "{name}");
    }
}

#[test]
fn virtual_hosts_and_trailing_fields_are_accepted() {
    let host = r#"shop.example.com:443 203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/2.0" 200 5"#;
    assert_eq!(
        attribute(host, "host").as_deref(),
        Some("shop.example.com:443")
    );
    assert_eq!(
        attribute(host, "client_ip").as_deref(),
        Some("<203.0.113.7>")
    );
    let user =
        r#"203.0.113.7 - ann [of] the hill [10/Oct/2026:13:55:36 +0000] "GET / HTTP/2.0" 200 5"#;
    assert_eq!(
        attribute(user, "user").as_deref(),
        Some("ann [of] the hill")
    );
    let absolute = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET http://h.example/p?q=1 HTTP/1.1" 200 -"#;
    assert_eq!(attribute(absolute, "host").as_deref(), Some("h.example"));
    assert_eq!(attribute(absolute, "path").as_deref(), Some("/p"));
    assert_eq!(attribute(absolute, "bytes"), None);
    let more = format!(r#"{COMBINED} 0.004 "198.51.100.1" -"#);
    assert_eq!(attribute(&more, "user").as_deref(), Some("ann"));
    let old = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET /a b" 200 5"#;
    assert_eq!(attribute(old, "path").as_deref(), Some("/a b"));
}

#[test]
fn invalid_lines_are_rejected_with_a_reason() {
    for (line, wrong) in [
        ("", LineError::Layout),
        ("hello world", LineError::Layout),
        (
            "203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] GET / HTTP/1.1 200 5",
            LineError::Layout,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1"#,
            LineError::Layout,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1\"#,
            LineError::Layout,
        ),
        (
            r#"203.0.113.7 [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5"#,
            LineError::Layout,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026 13:55:36] "GET / HTTP/1.1" 200 5"#,
            LineError::Time,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "-" 408 0"#,
            LineError::NoRequest,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "" 400 0"#,
            LineError::NoRequest,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01" 400 0"#,
            LineError::Request,
        ),
        (
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET" 400 0"#,
            LineError::Request,
        ),
    ] {
        assert_eq!(
            read(line, AccessLogFormat::Auto).err(),
            Some(wrong),
            "{line}"
        );
    }
    let common = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5"#;
    assert_eq!(
        read(common, AccessLogFormat::Combined).err(),
        Some(LineError::Layout)
    );
    let line = read(COMBINED, AccessLogFormat::Common).unwrap();
    assert!(line.get(&"header:user-agent".parse().unwrap()).is_none());
}
