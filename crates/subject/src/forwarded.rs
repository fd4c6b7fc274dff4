//! Reads the header in which proxies name the client.
//!
//! Lists are read from the right, where the nearest proxy appended its entry, and only as far as
//! needed. What the client wrote is to the left of that and is never parsed. So no unclosed quote,
//! invalid byte or excessive length in it can change how the trusted entries are read.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;

use crate::address;

/// The maximum number of proxies to follow. Real chains have two or three.
const HOPS_MAX: usize = 64;

/// The maximum length of a list element, in bytes. An element of `Forwarded` may contain a host
/// name of 253 characters.
const ELEMENT_MAX: usize = 1_024;

/// The header that the trusted proxies set. No other header is read: if several were, a client
/// could send the one that its proxy does not overwrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ForwardedBy {
    /// `X-Forwarded-For`: a list to which every proxy appends the address of its peer.
    #[default]
    XForwardedFor,
    /// `Forwarded`: the standardised list of RFC 7239.
    Forwarded,
    /// `X-Real-IP`: a single address, which the outermost proxy sets.
    XRealIp,
}

impl ForwardedBy {
    /// The name of the header, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::XRealIp => "x-real-ip",
        }
    }

    /// The addresses that the proxies wrote, nearest first. `None` if an entry is not a valid
    /// address.
    pub(crate) fn hops(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        self.elements(headers)
            .map(move |element| self.read(element?))
            .take(HOPS_MAX)
    }

    fn elements(self, headers: &HeaderMap) -> impl Iterator<Item = Option<&[u8]>> {
        let lines = headers.get_all(self.as_str()).iter().rev();
        lines.flat_map(move |line| ReverseElements {
            rest: Some(line.as_bytes()),
            header: self,
        })
    }

    fn read(self, element: &[u8]) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor | Self::XRealIp => address::read_bytes(element.trim_ascii()),
            Self::Forwarded => client_address(element),
        }
    }

    fn last_comma(self, list: &[u8]) -> Option<usize> {
        match self {
            Self::XForwardedFor => list.iter().rposition(|byte| *byte == b','),
            Self::Forwarded => last_unquoted_comma(list),
            Self::XRealIp => None,
        }
    }
}

/// Iterates over the elements of one header line, last first. An element that is too long is `None`
/// and ends the iteration.
struct ReverseElements<'a> {
    /// The part of the line that is not read yet. `None` at the end.
    rest: Option<&'a [u8]>,
    header: ForwardedBy,
}

impl<'a> Iterator for ReverseElements<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;

        // Search one byte more than the longest element, for the comma before it.
        let (before, searched) = rest.split_at(rest.len().saturating_sub(ELEMENT_MAX + 1));
        let Some(comma) = self.header.last_comma(searched) else {
            return Some(Some(rest).filter(|whole| whole.len() <= ELEMENT_MAX));
        };

        self.rest = rest.get(..before.len() + comma);
        Some(searched.get(comma + 1..))
    }
}

// The elements of a `Forwarded` list (RFC 7239): `for="[2001:db8::1]:443";proto=https`.

/// The position of the last comma outside quotes, after which the last element starts.
///
/// The list is read backwards. The first quote found this way closes a quoted string, and the next
/// unescaped one opens it. A complete element is thus parsed correctly whatever precedes it.
/// Reading forwards would not do: a client could open a quote, never close it, and so hide the
/// element that its proxy appends.
fn last_unquoted_comma(list: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' if !is_quoted || !is_escaped(list, at) => is_quoted = !is_quoted,
            b',' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The address in the `for` parameter. `None` if it is `unknown` or an obfuscated name (`_hidden`),
/// if there is not exactly one such parameter, or if any part of the element is malformed.
fn client_address(element: &[u8]) -> Option<IpAddr> {
    let mut rest = element.trim_ascii();
    let mut client = None;

    while !rest.is_empty() {
        let (parameter, after) = parameter(rest)?;
        rest = after;

        let Some((name, value)) = parameter else {
            continue;
        };
        if name.eq_ignore_ascii_case(b"for") && client.replace(value).is_some() {
            return None;
        }
    }

    parse_node(&client?)
}

/// Whether a quote is escaped. In a complete element, an opening quote follows an equals sign, and
/// an escaped quote follows a backslash, so the previous byte decides.
fn is_escaped(list: &[u8], quote: usize) -> bool {
    list.get(..quote)
        .is_some_and(|before| before.ends_with(b"\\"))
}

/// The name and value of a parameter.
type Parameter<'a> = (&'a [u8], Cow<'a, [u8]>);

/// Parses the next parameter. Returns it, or `None` for an empty parameter, and the remaining text.
fn parameter(text: &[u8]) -> Option<(Option<Parameter<'_>>, &[u8])> {
    if let Some(after) = text.strip_prefix(b";") {
        return Some((None, after.trim_ascii_start()));
    }

    let (name, after) = cut_before(text, |byte| !is_token(byte));
    let (value, after) = value(after.strip_prefix(b"=")?)?;

    let after = after.trim_ascii_start();
    let is_complete = !name.is_empty() && (after.is_empty() || after.starts_with(b";"));
    is_complete.then_some((Some((name, value)), after))
}

/// Parses the value at the start of a text, and returns it without quotes and escapes, with the
/// remaining text. Addresses with colons and brackets should be quoted, but some proxies do not
/// quote them. They are accepted, because they are unambiguous.
fn value(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    if let Some(inside) = text.strip_prefix(b"\"") {
        let end = closing_quote(inside)?;
        return Some((unescape(inside.get(..end)?).into(), inside.get(end + 1..)?));
    }

    let (value, after) = cut_before(text, |byte| !is_token(byte) && !b":[]".contains(&byte));
    (!value.is_empty()).then_some((value.into(), after))
}

fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut is_escaped = false;
    let kept = text.iter().copied().filter(|byte| {
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_escaped
    });
    kept.collect()
}

/// Parses a node: an address with an optional port. Here, unlike elsewhere, the port may be an
/// obfuscated name such as `_port`.
fn parse_node(node: &[u8]) -> Option<IpAddr> {
    let hidden_port = node.windows(2).position(|pair| pair == b":_");
    let (address, port) = node.split_at(hidden_port.unwrap_or(node.len()));
    let is_complete = port
        .iter()
        .skip(2)
        .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
    let is_bare = port.is_empty() || address.ends_with(b"]") || !address.contains(&b':');
    address::read_bytes(address).filter(|_| is_complete && is_bare && port != b":_")
}

/// Splits a text before the first byte for which `is_end` holds.
fn cut_before(text: &[u8], is_end: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| is_end(*byte));
    text.split_at(end.unwrap_or(text.len()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
