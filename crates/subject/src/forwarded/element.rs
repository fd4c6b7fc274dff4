//! The elements of a `Forwarded` list, RFC 7239: `for="[2001:db8::1]:443";proto=https`.

use super::{Hop, read_address};

/// Where the last element of a list begins: behind the last comma outside quotes.
///
/// Read backwards, the first quote met closes a quoted text, and the next one that no backslash
/// escapes opens it. That reads a complete element right whatever stands before it. Reading
/// forwards would not: a client that opens a quote and does not close it could hide in it what its
/// proxy adds.
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

/// The address in the `for` parameter. There is none if it is `unknown` or an invented name
/// (`_hidden`), if there is no such parameter or more than one, or if any part of the element is
/// malformed.
pub(super) fn node(element: &[u8]) -> Hop {
    let mut rest = element.trim_ascii();
    let mut found = None;
    while !rest.is_empty() {
        let (pair, after) = pair(rest)?;
        rest = after;
        let Some((name, value)) = pair else { continue };
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    address(&found?.text())
}

/// Whether a quote is part of the quoted text around it. In a complete element the quote that opens
/// a text stands behind an equals sign, and one within the text behind its backslash: the byte
/// before it tells them apart.
fn is_escaped(list: &[u8], quote: usize) -> bool {
    list.get(..quote)
        .is_some_and(|before| before.ends_with(b"\\"))
}

type Pair<'a> = (&'a [u8], Value<'a>);

/// The next pair, unless it is left out, and what follows the semicolon behind it.
fn pair(text: &[u8]) -> Option<(Option<Pair<'_>>, &[u8])> {
    if let Some(after) = text.strip_prefix(b";") {
        return Some((None, after.trim_ascii_start()));
    }
    let (name, after) = cut_before(text, |byte| !is_token(byte));
    let (value, after) = Value::read(after.strip_prefix(b"=")?)?;
    let after = after.trim_ascii_start();
    let is_complete = !name.is_empty() && (after.is_empty() || after.starts_with(b";"));
    is_complete.then_some((Some((name, value)), after))
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Plain(&'a [u8]),
    /// Without the quotes, with the backslashes.
    Quoted(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The value at the start of a text, and what follows. Addresses with colons and brackets must
    /// be quoted, yet not every proxy does so; nothing is ambiguous about those that are not.
    fn read(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        if let Some(inside) = text.strip_prefix(b"\"") {
            let end = closing_quote(inside)?;
            return Some((Self::Quoted(inside.get(..end)?), inside.get(end + 1..)?));
        }
        let (value, after) = cut_before(text, |byte| !is_token(byte) && !b":[]".contains(&byte));
        (!value.is_empty()).then_some((Self::Plain(value), after))
    }

    fn text(self) -> Vec<u8> {
        match self {
            Self::Plain(text) => text.to_vec(),
            Self::Quoted(text) => unescape(text),
        }
    }
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

/// The address of a node. Its port may be an invented name as well, which an address read elsewhere
/// may not have.
fn address(node: &[u8]) -> Hop {
    let hidden_port = node.windows(2).position(|pair| pair == b":_");
    let (address, port) = node.split_at(hidden_port.unwrap_or(node.len()));
    let is_complete = port
        .iter()
        .skip(2)
        .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
    let is_bare = port.is_empty() || address.ends_with(b"]") || !address.contains(&b':');
    read_address(address).filter(|_| is_complete && is_bare && port != b":_")
}

fn cut_before(text: &[u8], is_end: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| is_end(*byte));
    text.split_at(end.unwrap_or(text.len()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
