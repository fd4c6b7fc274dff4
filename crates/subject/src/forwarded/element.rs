//! Parses the elements of a `Forwarded` list (RFC 7239): `for="[2001:db8::1]:443";proto=https`.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::address;

/// The position of the last comma outside quotes, after which the last element starts.
///
/// The list is read backwards. The first quote found this way closes a quoted string, and the next
/// unescaped one opens it. A complete element is thus parsed correctly whatever precedes it.
/// Reading forwards would not do: a client could open a quote, never close it, and so hide the
/// element that its proxy appends.
pub(super) fn last_comma(list: &[u8]) -> Option<usize> {
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
pub(super) fn client_address(element: &[u8]) -> Option<IpAddr> {
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
