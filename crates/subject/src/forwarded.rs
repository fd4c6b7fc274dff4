//! Reading the one header in which proxies say for whom they ask.
//!
//! Lists are read from the right, where the nearest proxy wrote, and no further than needed. What a
//! client wrote stands to the left of that: it is not even looked at, so that no unfinished quote,
//! no stray byte and no length of it can change how the rest is read.

mod element;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderMap;

use crate::address;

/// The most proxies that are followed. Real chains have two or three.
const HOPS_MAX: usize = 64;

/// The longest element of a list that is read. One of `Forwarded` may carry the name of a host,
/// which has 253 letters.
const ELEMENT_MAX: usize = 1_024;

/// The one header that the trusted proxies are known to set. No other is read: if several were, a
/// client could use the one that its proxy does not overwrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ForwardedBy {
    /// `X-Forwarded-For`: a list to which every proxy adds the address it was asked from.
    #[default]
    XForwardedFor,
    /// `Forwarded`: the same as a standard, RFC 7239.
    Forwarded,
    /// `X-Real-IP`: one address, which the outermost proxy sets.
    XRealIp,
}

/// The word names no header that this crate reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a forwarding header; choose x-forwarded-for, forwarded or x-real-ip")]
pub struct UnknownHeaderError {
    found: String,
}

/// What a proxy wrote: the address it was asked from, or something that names none.
pub(crate) type Hop = Option<IpAddr>;

impl ForwardedBy {
    const ALL: [Self; 3] = [Self::XForwardedFor, Self::Forwarded, Self::XRealIp];

    /// The header's name in small letters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::XRealIp => "x-real-ip",
        }
    }

    /// What the proxies wrote, the nearest first.
    pub(crate) fn hops(self, headers: &HeaderMap) -> impl Iterator<Item = Hop> {
        self.elements(headers)
            .map(move |element| self.read(element?))
            .take(HOPS_MAX)
    }

    fn elements(self, headers: &HeaderMap) -> impl Iterator<Item = Option<&[u8]>> {
        let lines = headers.get_all(self.as_str()).iter().rev();
        lines.flat_map(move |line| FromRight {
            rest: Some(line.as_bytes()),
            header: self,
        })
    }

    fn read(self, element: &[u8]) -> Hop {
        match self {
            Self::XForwardedFor | Self::XRealIp => read_address(element.trim_ascii()),
            Self::Forwarded => element::node(element),
        }
    }

    fn last_comma(self, list: &[u8]) -> Option<usize> {
        match self {
            Self::XForwardedFor => list.iter().rposition(|byte| *byte == b','),
            Self::Forwarded => element::last_comma(list),
            Self::XRealIp => None,
        }
    }
}

impl FromStr for ForwardedBy {
    type Err = UnknownHeaderError;

    fn from_str(word: &str) -> Result<Self, UnknownHeaderError> {
        let known = Self::ALL
            .into_iter()
            .find(|header| word.eq_ignore_ascii_case(header.as_str()));
        known.ok_or_else(|| UnknownHeaderError {
            found: word.chars().take(64).collect(),
        })
    }
}

impl fmt::Display for ForwardedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The elements of one line, the last first. An element that is too long to be read is `None`, and
/// the last.
struct FromRight<'a> {
    rest: Option<&'a [u8]>,
    header: ForwardedBy,
}

impl<'a> Iterator for FromRight<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        // One byte more than the longest element, for the comma before it.
        let (unread, seen) = rest.split_at(rest.len().saturating_sub(ELEMENT_MAX + 1));
        let Some(comma) = self.header.last_comma(seen) else {
            return Some(Some(rest).filter(|whole| whole.len() <= ELEMENT_MAX));
        };
        self.rest = rest.get(..unread.len() + comma);
        Some(seen.get(comma + 1..))
    }
}

fn read_address(text: &[u8]) -> Hop {
    std::str::from_utf8(text).ok().and_then(address::read)
}
