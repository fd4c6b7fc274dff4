//! The common log format and the combined one, which adds where a request came from and with what:
//! `ADDRESS IDENT USER [TIME] "METHOD TARGET VERSION" STATUS BYTES "REFERER" "USER-AGENT"`, with or without the name of
//! the virtual host before it. What follows is passed over.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;

use memchr::{memchr, memchr_iter, memchr2};
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};
use tollgate_subject::parse_address;

use super::BadLine;
use super::target::Target;
use super::time::CommonTimes;

/// What a log writes where it has nothing to say.
const NOTHING: &str = "-";

/// A line, taken apart. Texts are as they stand there, with their escapes.
#[derive(Clone, Debug)]
pub(super) struct CommonLine<'l> {
    pub(super) time: Micros,
    client: &'l str,
    address: OnceCell<Option<IpAddr>>,
    host: &'l str,
    user: &'l str,
    method: &'l str,
    target: Target<'l>,
    status: &'l str,
    bytes: &'l str,
    referer: &'l str,
    user_agent: &'l str,
}

/// How much of a line is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Up to the number of bytes.
    Common,
    /// And the two quoted fields, which must be there.
    Combined,
    /// And the two quoted fields, if they are there.
    Either,
}

impl<'l> CommonLine<'l> {
    #[inline(always)]
    pub(super) fn read(line: &'l str, extent: Extent, times: &mut CommonTimes) -> Result<Self, BadLine> {
        let (head, time, rest) = around_time(line, times)?;
        let (host, client, user) = who(head).ok_or(BadLine::Layout)?;
        let (request, rest) = quoted(rest).ok_or(BadLine::Layout)?;
        let (method, target) = asked(request)?;
        let rest = rest.strip_prefix(' ').ok_or(BadLine::Layout)?;
        let (status, rest) = word(rest);
        let (bytes, rest) = word(rest);
        let more = if extent == Extent::Common { None } else { two_quoted(rest) };
        if extent == Extent::Combined && more.is_none() {
            return Err(BadLine::Layout);
        }
        let (referer, user_agent) = more.unwrap_or((NOTHING, NOTHING));
        let address = OnceCell::new();
        let target = Target::read(target);
        Ok(Self { time, client, address, host, user, method, target, status, bytes, referer, user_agent })
    }

    #[inline]
    pub(super) fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => return Some(self.client_ip()),
            AttributeKind::Method => self.method,
            AttributeKind::Path => return Some(Value::Text(unescaped(self.target.path))),
            AttributeKind::Host => self.target.host.or(said(self.host))?,
            AttributeKind::Query => return self.target.query(attribute.field()).map(Value::Text),
            AttributeKind::Header => said(match attribute.field() {
                "user-agent" => self.user_agent,
                "referer" => self.referer,
                _ => return None,
            })?,
            AttributeKind::Own => said(match attribute.name() {
                "user" | "remote_user" => self.user,
                "status" => self.status,
                "bytes" => self.bytes,
                _ => return None,
            })?,
            AttributeKind::Cookie => return None,
        };
        Some(Value::Text(unescaped(text)))
    }

    /// The address, read once for all limits; or the text that is none, which they will say.
    #[inline]
    fn client_ip(&self) -> Value<'_> {
        match self.address.get_or_init(|| parse_address(self.client).ok()) {
            Some(address) => Value::Address(*address),
            None => Value::Text(Cow::Borrowed(self.client)),
        }
    }
}

/// What stands before the time, the time, and what follows its bracket and blank. A user's name may hold a bracket too.
#[inline]
fn around_time<'l>(line: &'l str, times: &mut CommonTimes) -> Result<(&'l str, Micros, &'l str), BadLine> {
    let mut wrong = BadLine::Layout;
    for open in memchr_iter(b'[', line.as_bytes()) {
        let head = line[..open].strip_suffix(' ');
        let Some(close) = memchr(b']', &line.as_bytes()[open..]).map(|at| open + at) else { break };
        let rest = line[close + 1..].strip_prefix(' ');
        let (Some(head), Some(rest)) = (head, rest) else { continue };
        if let Some(time) = times.read(&line.as_bytes()[open + 1..close]) {
            return Ok((head, time, rest));
        }
        wrong = BadLine::Time;
    }
    Err(wrong)
}

/// The virtual host, the address and the user of `[HOST] ADDRESS IDENT USER`.
#[inline]
fn who(head: &str) -> Option<(&str, &str, &str)> {
    let (first, rest) = before_blank(head)?;
    let (second, rest) = before_blank(rest)?;
    let Some((_ident, last)) = before_blank(rest) else { return Some((NOTHING, first, rest)) };
    // Four words: the first is a host, or the user's name has a blank in it.
    let is_host = parse_address(first).is_err() && parse_address(second).is_ok();
    if is_host { Some((first, second, last)) } else { Some((NOTHING, first, rest)) }
}

/// The text between quotes, in which a quote is written `\"`, and what follows.
#[inline]
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', &inside.as_bytes()[from..])?;
        if inside.as_bytes()[at] == b'"' {
            return Some((&inside[..at], &inside[at + 1..]));
        }
        // Whatever is escaped, it does not end the text.
        from = at + 2;
        if from > inside.len() {
            return None;
        }
    }
}

fn two_quoted(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = quoted(text)?;
    let (second, _) = quoted(rest.strip_prefix(' ')?)?;
    Some((first, second))
}

/// A word, and what follows the blank behind it.
#[inline]
fn before_blank(text: &str) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

/// A word, and what follows it, which may be nothing.
#[inline]
fn word(text: &str) -> (&str, &str) {
    before_blank(text).unwrap_or((text, ""))
}

/// The method and the target of `METHOD TARGET VERSION`; very old clients leave out the version.
#[inline]
pub(super) fn asked(request: &str) -> Result<(&str, &str), BadLine> {
    if request.is_empty() || request == NOTHING {
        return Err(BadLine::NoRequest);
    }
    let (method, rest) = word(request);
    let is_method = (1..=32).contains(&method.len())
        && method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let target = match rest.rfind(' ') {
        Some(at) if rest.as_bytes()[at + 1..].starts_with(b"HTTP/") => &rest[..at],
        _ => rest,
    };
    if is_method && !target.is_empty() { Ok((method, target)) } else { Err(BadLine::Request) }
}

fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| *text != NOTHING && !text.is_empty())
}

/// The text that was written with escapes: `\"` and `\\` by all, `\x22` and `\n` by those who have control characters
/// to write.
#[inline]
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if memchr(b'\\', text.as_bytes()).is_none() { Cow::Borrowed(text) } else { rewrite(text).into() }
}

#[cold]
fn rewrite(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, taken) = if *first == b'\\' { escape(after) } else { (*first, 0) };
        bytes.push(byte);
        rest = &after[taken..];
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What stands behind a backslash, and how many bytes it takes.
fn escape(after: &[u8]) -> (u8, usize) {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match after {
        [b'x', high, low, ..] => match (digit(*high), digit(*low)) {
            (Some(high), Some(low)) => (high << 4 | low, 3),
            _ => (b'\\', 0),
        },
        [b'n', ..] => (b'\n', 1),
        [b't', ..] => (b'\t', 1),
        [b'r', ..] => (b'\r', 1),
        [byte @ (b'"' | b'\\'), ..] => (*byte, 1),
        _ => (b'\\', 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str = r#"203.0.113.7 - ann [10/Oct/2026:13:55:36 -0700] "POST /a/b?x=1&y=a%20b HTTP/1.1" 200 512 "https://example.com/" "curl/8 \"x\" \x41""#;

    fn read(line: &str, extent: Extent) -> Result<CommonLine<'_>, BadLine> {
        CommonLine::read(line, extent, &mut CommonTimes::default())
    }

    fn told(line: &str, name: &str) -> Option<String> {
        let read = read(line, Extent::Either).unwrap();
        read.get(&name.parse().unwrap()).map(|value| match value {
            Value::Text(text) => text.into_owned(),
            Value::Address(address) => format!("<{address}>"),
        })
    }

    #[test]
    fn a_line_says_what_its_request_was() {
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
            assert_eq!(told(COMBINED, name).as_deref(), value, "{name}");
        }
    }

    #[test]
    fn what_stands_around_the_common_fields_is_understood() {
        let host =
            r#"shop.example.com:443 203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/2.0" 200 5"#;
        assert_eq!(told(host, "host").as_deref(), Some("shop.example.com:443"));
        assert_eq!(told(host, "client_ip").as_deref(), Some("<203.0.113.7>"));
        let user = r#"203.0.113.7 - ann [of] the hill [10/Oct/2026:13:55:36 +0000] "GET / HTTP/2.0" 200 5"#;
        assert_eq!(told(user, "user").as_deref(), Some("ann [of] the hill"));
        let absolute =
            r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET http://h.example/p?q=1 HTTP/1.1" 200 -"#;
        assert_eq!(told(absolute, "host").as_deref(), Some("h.example"));
        assert_eq!(told(absolute, "path").as_deref(), Some("/p"));
        assert_eq!(told(absolute, "bytes"), None);
        let more = format!(r#"{COMBINED} 0.004 "198.51.100.1" -"#);
        assert_eq!(told(&more, "user").as_deref(), Some("ann"));
        let old = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET /a b" 200 5"#;
        assert_eq!(told(old, "path").as_deref(), Some("/a b"));
    }

    #[test]
    fn a_line_that_says_nothing_says_why() {
        for (line, wrong) in [
            ("", BadLine::Layout),
            ("hello world", BadLine::Layout),
            ("203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] GET / HTTP/1.1 200 5", BadLine::Layout),
            (r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1"#, BadLine::Layout),
            (r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1\"#, BadLine::Layout),
            (r#"203.0.113.7 [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5"#, BadLine::Layout),
            (r#"203.0.113.7 - - [10/Oct/2026 13:55:36] "GET / HTTP/1.1" 200 5"#, BadLine::Time),
            (r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "-" 408 0"#, BadLine::NoRequest),
            (r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "" 400 0"#, BadLine::NoRequest),
            (r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01" 400 0"#, BadLine::Request),
            (r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET" 400 0"#, BadLine::Request),
        ] {
            assert_eq!(read(line, Extent::Either).err(), Some(wrong), "{line}");
        }
        let common = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5"#;
        assert_eq!(read(common, Extent::Combined).err(), Some(BadLine::Layout));
        let line = read(COMBINED, Extent::Common).unwrap();
        assert!(line.get(&"header:user-agent".parse().unwrap()).is_none());
    }
}
