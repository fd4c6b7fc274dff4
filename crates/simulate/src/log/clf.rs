//! Parses the common log format and the combined log format, which adds the referer and the user
//! agent: `ADDRESS IDENT USER [TIME] "METHOD TARGET VERSION" STATUS BYTES "REFERER" "USER-AGENT"`,
//! optionally preceded by the virtual host. Anything after that is ignored.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2};
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};
use tollgate_subject::parse_address;

use super::escape::unescape;
use super::target::RequestTarget;
use super::time::ClfTimeParser;
use super::{AccessLogFormat, LineError, duration};

/// The placeholder for a missing value.
const MISSING: &str = "-";

/// A parsed line. Its texts still have their escapes.
#[derive(Clone, Debug)]
pub(super) struct CommonLine<'l> {
    pub(super) time: Micros,
    client: &'l str,
    host: &'l str,
    user: &'l str,
    method: &'l str,
    target: RequestTarget<'l>,
    /// Everything after the request. Few limits need it, so it is only parsed on demand.
    tail: &'l [u8],
    format: AccessLogFormat,
}

impl<'l> CommonLine<'l> {
    #[inline(always)]
    pub(super) fn parse(
        line: &'l [u8],
        format: AccessLogFormat,
        times: &ClfTimeParser,
    ) -> Result<Self, LineError> {
        let (head, time, rest) = split_at_time(line, times)?;
        let (request, tail) = split_quoted(rest).ok_or(LineError::Layout)?;
        let is_complete = format != AccessLogFormat::Combined || split_two_quoted(tail).is_some();
        if !tail.starts_with(b" ") || !is_complete {
            return Err(LineError::Layout);
        }

        // Validate everything up to the end of the request as UTF-8 in one pass. The last byte is
        // the closing quote.
        let front = std::str::from_utf8(&line[..line.len() - tail.len()])
            .map_err(|_| LineError::NotUtf8)?;
        let request = &front[front.len() - 1 - request.len()..front.len() - 1];
        let (host, client, user) = parse_head(&front[..head.len()]).ok_or(LineError::Layout)?;
        let (method, target) = parse_request_line(request)?;

        Ok(Self {
            time,
            client,
            host,
            user,
            method,
            target: RequestTarget::parse(target),
            tail,
            format,
        })
    }

    /// The referer and the user agent, with their escapes.
    fn referer_and_agent(&self) -> Option<(&'l [u8], &'l [u8])> {
        if self.format == AccessLogFormat::Common {
            None
        } else {
            split_two_quoted(self.tail)
        }
    }

    /// The word with this index after the request: 0 is the status, 1 the number of bytes.
    fn word_after_request(&self, index: usize) -> Option<&'l [u8]> {
        self.tail.split(|byte| *byte == b' ').nth(1 + index)
    }

    /// How long the request took: the first word after the status and the bytes that says so.
    /// Quoted words are texts of the client.
    pub(super) fn duration(&self) -> Option<Micros> {
        let mut rest = self.tail.trim_ascii_start();
        let mut words = 0;

        while !rest.is_empty() {
            words += 1;
            if let Some((_, after)) = split_quoted(rest) {
                rest = after.trim_ascii_start();
                continue;
            }

            let (word, after) = rest.split_at(memchr(b' ', rest).unwrap_or(rest.len()));
            let text = std::str::from_utf8(word).unwrap_or_default();
            if words > 2
                && let Some(duration) = duration::from_word(text)
            {
                return Some(duration);
            }
            rest = after.trim_ascii_start();
        }
        None
    }

    #[inline]
    pub(super) fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => return Some(Value::Text(self.client.into())),
            AttributeKind::Method => self.method,
            AttributeKind::Path => return Some(Value::Text(unescape(self.target.path))),
            AttributeKind::Host => self.target.host.or(present(self.host))?,
            AttributeKind::Query => {
                return Some(Value::Texts(self.target.query(attribute.field())));
            }
            AttributeKind::Header => {
                let (referer, user_agent) = self.referer_and_agent()?;
                return tail_value(match attribute.field() {
                    "user-agent" => user_agent,
                    "referer" => referer,
                    _ => return None,
                });
            }
            AttributeKind::Custom => match attribute.name() {
                "user" | "remote_user" => present(self.user)?,
                "status" => return tail_value(self.word_after_request(0)?),
                "bytes" => return tail_value(self.word_after_request(1)?),
                _ => return None,
            },
            AttributeKind::Cookie => return None,
        };

        Some(Value::Text(unescape(text)))
    }
}

/// Splits a line into the part before the time, the time, and the part after it. A user name may
/// contain brackets too, so all pairs of brackets are tried.
#[inline]
fn split_at_time<'l>(
    line: &'l [u8],
    times: &ClfTimeParser,
) -> Result<(&'l [u8], Micros, &'l [u8]), LineError> {
    let mut error = LineError::Layout;

    for open in memchr_iter(b'[', line) {
        let Some(close) = memchr(b']', &line[open..]).map(|at| open + at) else {
            break;
        };

        let head = line[..open].strip_suffix(b" ");
        let rest = line[close + 1..].strip_prefix(b" ");
        let Some((head, rest)) = head.zip(rest) else {
            continue;
        };

        if let Some(time) = times.parse(&line[open + 1..close]) {
            return Ok((head, time, rest));
        }
        error = LineError::Time;
    }
    Err(error)
}

/// The virtual host, the address and the user of `[HOST] ADDRESS IDENT USER`.
#[inline]
fn parse_head(head: &str) -> Option<(&str, &str, &str)> {
    let (first, rest) = split_at_space(head)?;
    let (second, rest) = split_at_space(rest)?;
    let Some((_ident, last)) = split_at_space(rest) else {
        return Some((MISSING, first, rest));
    };

    // With four words, either the first is a host or the user name contains a space.
    let is_host = parse_address(first).is_err() && parse_address(second).is_ok();
    Some(if is_host {
        (first, second, last)
    } else {
        (MISSING, first, rest)
    })
}

/// Splits a text that starts with a quoted part into its content and the rest. `\"` is an escaped
/// quote.
#[inline]
pub(super) fn split_quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"\"")?;
    let mut from = 0;

    loop {
        let at = from + memchr2(b'"', b'\\', inside.get(from..)?)?;
        if inside[at] == b'"' {
            return Some((&inside[..at], &inside[at + 1..]));
        }
        // Skip the escaped byte, which may be a quote.
        from = at + 2;
    }
}

/// The contents of the two quoted fields after status and bytes.
fn split_two_quoted(tail: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = tail.splitn(4, |byte| *byte == b' ');
    let rest = words.nth(3)?;
    let (first, rest) = split_quoted(rest)?;
    let (second, _) = split_quoted(rest.strip_prefix(b" ")?)?;
    Some((first, second))
}

/// The value of a text after the request, which need not be valid UTF-8.
fn tail_value(bytes: &[u8]) -> Option<Value<'_>> {
    let text = match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => unescape(present(text)?),
        Cow::Owned(text) => Cow::Owned(unescape(&text).into_owned()),
    };
    Some(Value::Text(text))
}

/// Splits a text at the first space.
#[inline]
fn split_at_space(text: &str) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

/// The method and the target of `METHOD TARGET VERSION`. HTTP/0.9 requests have no version.
#[inline]
pub(super) fn parse_request_line(request: &str) -> Result<(&str, &str), LineError> {
    if request.is_empty() || request == MISSING {
        return Err(LineError::NoRequest);
    }

    let (method, rest) = split_at_space(request).unwrap_or((request, ""));
    let is_method = (1..=32).contains(&method.len())
        && method
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let target = without_version(rest);

    if is_method && !target.is_empty() {
        Ok((method, target))
    } else {
        Err(LineError::Request)
    }
}

/// Strips the version, with a fast path for `HTTP/1.1`.
#[inline]
fn without_version(rest: &str) -> &str {
    if let Some(target) = rest.strip_suffix(" HTTP/1.1") {
        return target;
    }
    match rest.rsplit_once(' ') {
        Some((target, version)) if version.starts_with("HTTP/") => target,
        _ => rest,
    }
}

/// `None` for an empty text or the placeholder.
pub(super) fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| *text != MISSING && !text.is_empty())
}

#[cfg(test)]
mod tests;
