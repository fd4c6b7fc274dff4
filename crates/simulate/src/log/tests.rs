//! Lines as written by real programs, and random bytes.

use proptest::prelude::*;
use tollgate_rules::{Attributes as _, Value};

use super::*;

const NGINX: &str = r#"{"time_iso8601":"2026-10-10T20:55:36+00:00","msec":"1791665736.123","remote_addr":"203.0.113.7","request":"POST /auth/login?next=%2F HTTP/1.1","status":401,"http_host":"api.example.com","http_user_agent":"curl/8.5","http_x_api_key":"k1","remote_user":"","cookie_sid":"s1"}"#;
const CADDY: &str = r#"{"level":"info","ts":1791665736.123,"logger":"http.log.access","request":{"remote_ip":"10.0.0.3","remote_port":"4711","client_ip":"203.0.113.7","proto":"HTTP/2.0","method":"GET","host":"api.example.com:443","uri":"/v1/users?page=2","headers":{"User-Agent":["curl/8.5"],"X-Api-Key":["k1","k2"]}},"user_id":"ann","duration":0.001,"status":200}"#;
const TRAEFIK: &str = r#"{"ClientAddr":"203.0.113.7:4711","ClientHost":"203.0.113.7","ClientUsername":"-","RequestMethod":"GET","RequestPath":"/v1/users?page=2","RequestHost":"api.example.com","StartUTC":"2026-10-10T20:55:36.123456789Z","request_User-Agent":"curl/8.5","DownstreamStatus":200,"time":"2026-10-10T20:55:37Z"}"#;

const NAMES: [&str; 12] = [
    "client_ip",
    "method",
    "path",
    "host",
    "query:page",
    "query:next",
    "header:user-agent",
    "header:x-api-key",
    "cookie:sid",
    "user",
    "status",
    "labels.tenant",
];

fn parser(format: AccessLogFormat, custom: &[(&str, &str)]) -> LogParser {
    let attributes: Vec<Attribute> = NAMES.iter().map(|name| name.parse().unwrap()).collect();
    let custom: Vec<_> = custom
        .iter()
        .map(|(name, field)| (name.to_string(), field.to_string()))
        .collect();
    LogParser::new(format, LogFields::new(&attributes, &custom).unwrap())
}

/// The attributes of a line by name, without those it lacks.
fn values(parser: &LogParser, line: &str) -> Vec<(&'static str, String)> {
    let record = parser.parse(line.as_bytes()).unwrap();
    let value = |name: &&'static str| match record.get(&name.parse().unwrap())? {
        Value::Text(text) => Some((*name, text.into_owned())),
        Value::Address(address) => Some((*name, address.to_string())),
        Value::Texts(values) => Some((*name, values.as_slice().first()?.to_string())),
    };
    NAMES.iter().filter_map(value).collect()
}

fn texts(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    pairs
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

#[test]
fn nginx_is_understood() {
    let expected = texts(&[
        ("client_ip", "203.0.113.7"),
        ("method", "POST"),
        ("path", "/auth/login"),
        ("host", "api.example.com"),
        ("query:next", "/"),
        ("header:user-agent", "curl/8.5"),
        ("header:x-api-key", "k1"),
        ("cookie:sid", "s1"),
        ("status", "401"),
    ]);
    assert_eq!(values(&parser(AccessLogFormat::Auto, &[]), NGINX), expected);
}

#[test]
fn caddy_is_understood() {
    let expected = texts(&[
        ("client_ip", "203.0.113.7"),
        ("method", "GET"),
        ("path", "/v1/users"),
        ("host", "api.example.com:443"),
        ("query:page", "2"),
        ("header:user-agent", "curl/8.5"),
        ("header:x-api-key", "k1, k2"),
        ("user", "ann"),
        ("status", "200"),
    ]);
    let parser = parser(AccessLogFormat::Json, &[]);
    assert_eq!(values(&parser, CADDY), expected);
    assert_eq!(
        parser.parse(CADDY.as_bytes()).unwrap().time(),
        Micros::new(1_791_665_736_123_000)
    );
}

#[test]
fn traefik_is_understood() {
    let expected = texts(&[
        ("client_ip", "203.0.113.7"),
        ("method", "GET"),
        ("path", "/v1/users"),
        ("host", "api.example.com"),
        ("query:page", "2"),
        ("header:user-agent", "curl/8.5"),
    ]);
    let parser = parser(AccessLogFormat::Auto, &[("time", "StartUTC")]);
    assert_eq!(values(&parser, TRAEFIK), expected);
    assert_eq!(
        parser.parse(TRAEFIK.as_bytes()).unwrap().time(),
        Micros::new(1_791_665_736_123_456)
    );
}

#[test]
fn custom_fields_take_precedence() {
    let line = r#"{"at":1791665736,"who":{"addr":"203.0.113.7"},"labels":{"tenant":"acme"},"path":"/a","uri":"/b","args":"page=3","extra":[1,{"x":[]},null]}"#;
    let parser = parser(
        AccessLogFormat::Auto,
        &[("time", "at"), ("client_ip", "who.addr"), ("path", "uri")],
    );
    let expected = texts(&[
        ("client_ip", "203.0.113.7"),
        ("path", "/b"),
        ("query:page", "3"),
        ("labels.tenant", "acme"),
    ]);
    assert_eq!(values(&parser, line), expected);
}

#[test]
fn invalid_fields_are_rejected() {
    let wrong = |name: &str, field: &str| {
        LogFields::new([], &[(name.to_owned(), field.to_owned())])
            .unwrap_err()
            .to_string()
    };
    assert!(wrong("clientip", "x").contains("did you mean `client_ip`?"));
    assert!(wrong("time", "").contains("expected NAME=FIELD"));
}

#[test]
fn invalid_json_lines_are_rejected_with_a_reason() {
    let parser = parser(AccessLogFormat::Json, &[]);
    for (line, wrong) in [
        ("", LineError::Json),
        ("{", LineError::Json),
        ("[1]", LineError::Json),
        (r#"{"time":"2026-10-10T20:55:36Z"} x"#, LineError::Json),
        (
            r#"{"time":"2026-10-10T20:55:36Z","a":"\ud800"}"#,
            LineError::Json,
        ),
        (r#"{"path":"/a"}"#, LineError::NoTime),
        (r#"{"time":"soon"}"#, LineError::Time),
        (r#"{"time":{"a":1}}"#, LineError::NoTime),
        (
            r#"{"ts":1791665736,"request":"\u0016\u0003"}"#,
            LineError::Request,
        ),
    ] {
        assert_eq!(parser.parse(line.as_bytes()).err(), Some(wrong), "{line}");
    }
}

#[test]
fn lines_that_are_not_utf8_are_repaired() {
    let line = b"203.0.113.7 - \xff [10/Oct/2026:13:55:36 +0000] \"GET /caf\xe9 HTTP/1.1\" 200 5";
    let parser = parser(AccessLogFormat::Auto, &[]);
    assert_eq!(parser.parse(line).err(), Some(LineError::NotUtf8));
    let repaired = String::from_utf8_lossy(line);
    let record = parser.parse(repaired.as_bytes()).unwrap();
    assert_eq!(
        record.get(&"path".parse().unwrap()),
        Some(Value::Text("/caf\u{fffd}".into()))
    );
}

/// Parses a line and reads all attributes.
fn exhaust(format: AccessLogFormat, line: &[u8]) {
    let parser = parser(format, &[]);
    let repaired = String::from_utf8_lossy(line);
    for record in [parser.parse(line), parser.parse(repaired.as_bytes())]
        .into_iter()
        .flatten()
    {
        for name in NAMES {
            record.get(&name.parse().unwrap());
        }
    }
    assert_ne!(
        parser.parse(repaired.as_bytes()).err(),
        Some(LineError::NotUtf8)
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        for format in [AccessLogFormat::Auto, AccessLogFormat::Common, AccessLogFormat::Combined, AccessLogFormat::Json] {
            exhaust(format, &line);
        }
    }

    /// Random bytes fail early. These lines are valid except for a few bytes.
    #[test]
    fn no_change_to_a_valid_line_makes_the_parser_panic(
        which in 0..4_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b"\"\\[]{} -:/?&=%\xc3\xff\x00x1,."[..]), any::<bool>()), 1..8),
    ) {
        const COMBINED: &str = r#"h.example 203.0.113.7 - ann [10/Oct/2026:13:55:36 -0700] "POST http://h/a?x=%31 HTTP/1.1" 200 512 "r\"" "a\x41""#;
        let mut line = [COMBINED, NGINX, CADDY, TRAEFIK][which].as_bytes().to_vec();
        for (at, byte, is_cut) in changes {
            let at = at.index(line.len());
            if is_cut {
                line.remove(at);
            } else {
                line[at] = byte;
            }
        }
        exhaust(AccessLogFormat::Auto, &line);
    }
}
