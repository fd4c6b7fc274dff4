//! Reads the header in which proxies name the client.
//!
//! Lists are read from the right, where the nearest proxy appended its entry, and only as far as
//! needed. What the client wrote is to the left of that and is never parsed. So no unclosed quote,
//! invalid byte or excessive length in it can change how the trusted entries are read.

mod element;

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
            Self::Forwarded => element::client_address(element),
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
