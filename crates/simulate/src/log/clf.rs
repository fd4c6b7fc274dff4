//! The common log format and the combined one, which adds where a request came from and with what:
//! `ADDRESS IDENT USER [TIME] "METHOD TARGET VERSION" STATUS BYTES "REFERER" "USER-AGENT"`, with or
//! without the name of the virtual host before it. What follows is passed over.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;

use memchr::{memchr, memchr_iter, memchr2};
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};
use tollgate_subject::parse_address;

use super::escape::unescaped;
use super::target::Target;
use super::time::CommonTimes;
use super::{BadLine, Unread};

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
    /// What follows the request. Few limits look at it, so it is taken apart when one does.
    tail: &'l [u8],
    extent: Extent,
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
    pub(super) fn read(
        line: &'l [u8],
        extent: Extent,
        times: &CommonTimes,
    ) -> Result<Self, Unread> {
        let (head, time, rest) = around_time(line, times)?;
        let (request, tail) = quoted(rest).ok_or(BadLine::Layout)?;
        let is_whole = extent != Extent::Combined || two_quoted(tail).is_some();
        if !tail.starts_with(b" ") || !is_whole {
            return Err(BadLine::Layout.into());
        }
        // One look at all that is text; a quote stands before what follows the request.
        let front =
            std::str::from_utf8(&line[..line.len() - tail.len()]).map_err(|_| Unread::NotText)?;
        let request = &front[front.len() - 1 - request.len()..front.len() - 1];
        let (host, client, user) = who(&front[..head.len()]).ok_or(BadLine::Layout)?;
        let (method, target) = asked(request)?;
        let (address, target) = (OnceCell::new(), Target::read(target));
        Ok(Self {
            time,
            client,
            address,
            host,
            user,
            method,
            target,
            tail,
            extent,
        })
    }

    /// The quoted fields, if they are there and wanted.
    fn quoted(&self) -> Option<(&'l [u8], &'l [u8])> {
        if self.extent == Extent::Common {
            None
        } else {
            two_quoted(self.tail)
        }
    }

    /// The word of this number behind the request.
    fn number(&self, place: usize) -> Option<&'l [u8]> {
        self.tail.split(|byte| *byte == b' ').nth(1 + place)
    }

    #[inline]
    pub(super) fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => return Some(self.client_ip()),
            AttributeKind::Method => self.method,
            AttributeKind::Path => return Some(Value::Text(unescaped(self.target.path))),
            AttributeKind::Host => self.target.host.or(said(self.host))?,
            AttributeKind::Query => return self.target.query(attribute.field()).map(Value::Text),
            AttributeKind::Header => {
                let (referer, user_agent) = self.quoted()?;
                return behind(match attribute.field() {
                    "user-agent" => user_agent,
                    "referer" => referer,
                    _ => return None,
                });
            }
            AttributeKind::Own => match attribute.name() {
                "user" | "remote_user" => said(self.user)?,
                "status" => return behind(self.number(0)?),
                "bytes" => return behind(self.number(1)?),
                _ => return None,
            },
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

/// What stands before the time, the time, and what follows its bracket and blank. A user's name may
/// hold a bracket too.
#[inline]
fn around_time<'l>(
    line: &'l [u8],
    times: &CommonTimes,
) -> Result<(&'l [u8], Micros, &'l [u8]), BadLine> {
    let mut wrong = BadLine::Layout;
    for open in memchr_iter(b'[', line) {
        let Some(close) = memchr(b']', &line[open..]).map(|at| open + at) else {
            break;
        };
        let (head, rest) = (
            line[..open].strip_suffix(b" "),
            line[close + 1..].strip_prefix(b" "),
        );
        let (Some(head), Some(rest)) = (head, rest) else {
            continue;
        };
        if let Some(time) = times.read(&line[open + 1..close]) {
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
    let Some((_ident, last)) = before_blank(rest) else {
        return Some((NOTHING, first, rest));
    };
    // Four words: the first is a host, or the user's name has a blank in it.
    let is_host = parse_address(first).is_err() && parse_address(second).is_ok();
    if is_host {
        Some((first, second, last))
    } else {
        Some((NOTHING, first, rest))
    }
}

/// What stands between quotes, in which a quote is written `\"`, and what follows.
#[inline]
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', inside.get(from..)?)?;
        if inside[at] == b'"' {
            return Some((&inside[..at], &inside[at + 1..]));
        }
        // Whatever is escaped, it does not end the text.
        from = at + 2;
    }
}

/// The two quoted fields behind status and bytes.
fn two_quoted(tail: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = tail.splitn(4, |byte| *byte == b' ');
    let rest = words.nth(3)?;
    let (first, rest) = quoted(rest)?;
    let (second, _) = quoted(rest.strip_prefix(b" ")?)?;
    Some((first, second))
}

/// A text behind the request, which need not be UTF-8.
fn behind(bytes: &[u8]) -> Option<Value<'_>> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => unescaped(said(text)?),
        Err(_) => Cow::Owned(unescaped(&String::from_utf8_lossy(bytes)).into_owned()),
    };
    Some(Value::Text(text))
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
        && method
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let target = without_version(rest);
    if is_method && !target.is_empty() {
        Ok((method, target))
    } else {
        Err(BadLine::Request)
    }
}

/// A target without the version behind it, which is `HTTP/1.1` for nearly all.
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

fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| *text != NOTHING && !text.is_empty())
}

#[cfg(test)]
mod tests;
