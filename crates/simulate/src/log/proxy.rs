//! Parses the default text formats of Envoy and of AWS's application load balancer (ALB), which
//! say how long requests took.
//!
//! - Envoy: `[START] "METHOD TARGET VERSION" STATUS FLAGS RECEIVED SENT DURATION UPSTREAM_TIME
//!   "X-FORWARDED-FOR" "USER-AGENT" "REQUEST-ID" "AUTHORITY" "UPSTREAM"`, the duration in
//!   milliseconds
//! - ALB: `TYPE END NAME CLIENT:PORT TARGET:PORT T1 T2 T3 STATUS TARGET_STATUS RECEIVED SENT
//!   "METHOD TARGET VERSION" "USER-AGENT" ..`, three parts of the duration in seconds

use memchr::memchr;
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};

use super::clf::{parse_request_line, present, split_quoted};
use super::duration::DurationUnit;
use super::escape::unescape;
use super::target::RequestTarget;
use super::{LineError, LoggedMoment, time};

/// The most words of a line that are looked at.
const WORDS_MAX: usize = 14;
/// The first words of the lines of a load balancer.
const ALB_TYPES: [&[u8]; 6] = [b"http ", b"https ", b"h2 ", b"grpcs ", b"ws ", b"wss "];

/// A parsed line of a proxy. Its texts still have their escapes.
#[derive(Clone, Debug)]
pub(super) struct ProxyLine<'l> {
    pub(super) time: Micros,
    pub(super) duration: Option<Micros>,
    pub(super) moment: LoggedMoment,
    client: &'l str,
    host: Option<&'l str>,
    method: &'l str,
    target: RequestTarget<'l>,
    status: &'l str,
    bytes: &'l str,
    agent: &'l str,
}

/// Which proxy a line is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyLogFormat {
    Envoy,
    Alb,
}

impl ProxyLogFormat {
    /// The proxy that writes lines with such a beginning. Lines of other servers begin with an
    /// address or a host.
    pub(super) fn detect(line: &[u8]) -> Option<Self> {
        // A year, and not an address in brackets.
        let is_time = |inside: &[u8]| {
            inside.len() > 4 && inside[4] == b'-' && inside[..4].iter().all(u8::is_ascii_digit)
        };
        if line.strip_prefix(b"[").is_some_and(is_time) {
            Some(Self::Envoy)
        } else {
            let is_alb = ALB_TYPES.iter().any(|kind| line.starts_with(kind));
            is_alb.then_some(Self::Alb)
        }
    }
}

impl<'l> ProxyLine<'l> {
    pub(super) fn parse(line: &'l [u8], kind: ProxyLogFormat) -> Result<Self, LineError> {
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
        let words = split_words(text);
        let word = |index: usize| words.get(index).copied().ok_or(LineError::Layout);
        // Where the time, the request, its status, its bytes and its user agent are.
        let (moment, [time, request, status, bytes, agent]) = match kind {
            ProxyLogFormat::Envoy => (LoggedMoment::Start, [0, 1, 2, 5, 9]),
            ProxyLogFormat::Alb => (LoggedMoment::End, [1, 12, 8, 11, 13]),
        };

        let (method, target) = parse_request_line(word(request)?)?;
        let target = RequestTarget::parse(target);
        let (client, host, duration) = match kind {
            ProxyLogFormat::Envoy => {
                let client = word(8)?.rsplit(',').next().unwrap_or_default();
                let duration = DurationUnit::Millis.parse(word(6)?);
                (client.trim(), present(word(11)?), duration)
            }
            ProxyLogFormat::Alb => {
                let client = word(3)?;
                let address = client
                    .rsplit_once(':')
                    .map_or(client, |(address, _)| address);
                // A part that is -1 means that there was no answer.
                let mut parts = [word(5)?, word(6)?, word(7)?].into_iter();
                let sum = |sum: Micros, part| Some(sum.after(DurationUnit::Seconds.parse(part)?));
                (address, target.host, parts.try_fold(Micros::ZERO, sum))
            }
        };
        Ok(Self {
            time: time::parse_any(word(time)?).ok_or(LineError::Time)?,
            duration,
            moment,
            client,
            host,
            method,
            target,
            status: word(status)?,
            bytes: word(bytes)?,
            agent: word(agent)?,
        })
    }

    pub(super) fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => present(self.client)?,
            AttributeKind::Method => self.method,
            AttributeKind::Path => self.target.path,
            AttributeKind::Host => self.target.host.or(self.host)?,
            AttributeKind::Query => {
                return Some(Value::Texts(self.target.query(attribute.field())));
            }
            AttributeKind::Header if attribute.field() == "user-agent" => present(self.agent)?,
            AttributeKind::Custom => match attribute.name() {
                "status" => self.status,
                "bytes" => self.bytes,
                _ => return None,
            },
            AttributeKind::Header | AttributeKind::Cookie => return None,
        };

        Some(Value::Text(unescape(text)))
    }
}

/// The first words of a line. A word in quotes or brackets may contain spaces.
fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::with_capacity(WORDS_MAX);
    let mut rest = text.trim_start();

    while !rest.is_empty() && words.len() < WORDS_MAX {
        let quoted = split_quoted(rest.as_bytes()).map(|(word, _)| (1, word.len()));
        let bracketed = || {
            let inside = rest.strip_prefix('[')?;
            Some((1, memchr(b']', inside.as_bytes())?))
        };
        let plain = || (0, memchr(b' ', rest.as_bytes()).unwrap_or(rest.len()));
        let (mark, length) = quoted.or_else(bracketed).unwrap_or_else(plain);
        words.push(&rest[mark..mark + length]);
        rest = rest[mark + length + mark..].trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVOY: &str = r#"[2026-10-10T13:55:36.310Z] "POST /api/v1/a?x=1 HTTP/2" 204 - 154 99 226 100 "198.51.100.1, 203.0.113.7" "agent \"x\" y" "cc21d9b0" "shop.example" "10.0.2.1:80""#;
    const ALB: &str = r#"https 2026-10-10T13:55:36.186641Z app/my-lb/50dc6c495c0c9188 203.0.113.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://shop.example:443/a?x=1 HTTP/1.1" "curl/7.46.0" ECDHE-RSA TLSv1.2 arn:aws "Root=1" "shop.example""#;

    fn text(line: &ProxyLine<'_>, name: &str) -> Option<String> {
        let attribute = name.parse().expect("a name");
        match line.get(&attribute)? {
            Value::Text(text) => Some(text.into_owned()),
            Value::Address(address) => Some(address.to_string()),
            Value::Texts(values) => values.into_iter().next().map(Into::into),
        }
    }

    fn parse(line: &str) -> Result<ProxyLine<'_>, LineError> {
        let kind = ProxyLogFormat::detect(line.as_bytes()).expect("a proxy");
        ProxyLine::parse(line.as_bytes(), kind)
    }

    #[test]
    fn lines_of_proxies_are_read() {
        for (line, path, agent, bytes, status, duration, moment) in [
            (
                ENVOY,
                "/api/v1/a",
                "agent \"x\" y",
                "99",
                "204",
                226_000,
                LoggedMoment::Start,
            ),
            (
                ALB,
                "/a",
                "curl/7.46.0",
                "57",
                "200",
                171_000,
                LoggedMoment::End,
            ),
        ] {
            let line = parse(line).expect("a line");
            assert_eq!(text(&line, "client_ip").as_deref(), Some("203.0.113.7"));
            assert_eq!(text(&line, "path").as_deref(), Some(path));
            assert_eq!(text(&line, "query:x").as_deref(), Some("1"));
            assert_eq!(text(&line, "header:user-agent").as_deref(), Some(agent));
            assert_eq!(text(&line, "bytes").as_deref(), Some(bytes));
            assert_eq!(text(&line, "status").as_deref(), Some(status));
            let host = text(&line, "host").expect("a host");
            assert!(host.starts_with("shop.example"), "{host}");
            assert_eq!(line.duration, Some(Micros::new(duration)));
            assert_eq!(line.moment, moment);
            assert_eq!(line.time.get() / 1_000_000, 1_791_640_536);
        }
    }

    #[test]
    fn incomplete_lines_are_errors() {
        for (line, error) in [
            (
                "[2026-10-10T13:55:36.310Z] \"POST /a HTTP/2\" 204 -",
                LineError::Layout,
            ),
            ("[2026-] \"POST /a HTTP/2\"", LineError::Layout),
            ("[2026-", LineError::Layout),
            ("http ", LineError::Layout),
            ("h2 2026-10-10T13:55:36Z lb \"", LineError::Layout),
        ] {
            assert_eq!(parse(line).map(|_| ()), Err(error), "{line}");
        }
        for other in ["[2001:db8::1]:443 - - [10/Oct", "[", "httpd - -", ""] {
            assert_eq!(ProxyLogFormat::detect(other.as_bytes()), None, "{other}");
        }
        let failed = ALB.replace("0.048", "-1");
        assert_eq!(parse(&failed).expect("a line").duration, None);
        let no_client = ENVOY.replace("198.51.100.1, 203.0.113.7", "-");
        assert_eq!(text(&parse(&no_client).expect("a line"), "client_ip"), None);
    }
}
