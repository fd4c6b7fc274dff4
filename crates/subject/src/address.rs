//! Parses addresses as proxies and callers write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::network::mask;

/// The maximum length of an address, in bytes. A full IPv6 address with brackets, zone and port is
/// well below it.
const ADDRESS_MAX: usize = 128;

/// The maximum length of a zone, in bytes: twice what Linux allows for an interface name.
const ZONE_MAX: usize = 32;

/// The reason why a text is not a valid client address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is empty.
    #[error("the address is empty; expected one such as 203.0.113.7 or 2001:db8::1")]
    Empty,
    /// The text is too long.
    #[error("the address is too long: found {found} bytes, at most {ADDRESS_MAX} are allowed")]
    TooLong {
        /// The length in bytes.
        found: usize,
    },
    /// The text is not an address, or it is the unspecified address.
    #[error(
        "invalid address {found:?}: expected one such as 203.0.113.7, 2001:db8::1 or \
         [2001:db8::1]:443"
    )]
    Invalid {
        /// The text.
        found: String,
    },
}

/// Parses the address of a client, with or without brackets and port.
///
/// * An IPv4-mapped IPv6 address becomes the IPv4 address, so that no host has two addresses.
/// * A NAT64 address (`64:ff9b::/96`) becomes the IPv4 address inside. All NAT64 addresses lie in
///   one /64, so the whole IPv4 Internet would otherwise share one counter. This holds for public
///   IPv4 addresses only, as the prefix is not defined for others: NAT64 cannot be used to pose as
///   `10.0.0.1` or `127.0.0.1`.
/// * A zone (`fe80::1%eth0`) is removed. It names an interface of the machine that wrote it and
///   means nothing elsewhere. If it were kept, one host could invent any number of addresses.
/// * The unspecified addresses `0.0.0.0` and `::` are rejected. They mean that the address is not
///   known, and unknown clients must not share a counter by accident.
/// * Octal, short and numeric forms (`010.0.0.1`, `1.2`) are rejected, because programs disagree on
///   their meaning.
///
/// ```
/// use tollgate_subject::parse_address;
///
/// assert_eq!(parse_address("[::ffff:203.0.113.7]:443")?.to_string(), "203.0.113.7");
/// assert_eq!(parse_address("64:ff9b::203.0.113.7")?.to_string(), "203.0.113.7");
/// assert!(parse_address("010.0.0.1").is_err());
/// # Ok::<(), tollgate_subject::AddressError>(())
/// ```
pub fn parse_address(text: &str) -> Result<IpAddr, AddressError> {
    match text.len() {
        0 => Err(AddressError::Empty),
        found if found > ADDRESS_MAX => Err(AddressError::TooLong { found }),
        _ => read(text).map(host).ok_or_else(|| AddressError::Invalid {
            found: text.to_owned(),
        }),
    }
}

/// Parses an address, but keeps a NAT64 address as it is: whether a proxy is trusted depends on
/// the address that it wrote.
pub(crate) fn read(text: &str) -> Option<IpAddr> {
    let address = match text.strip_prefix('[') {
        Some(rest) => bracketed(rest)?.into(),
        None => bare(text)?,
    };
    Some(address.to_canonical()).filter(|address| !address.is_unspecified())
}

/// Like [`read`], for the bytes of a header.
pub(crate) fn read_bytes(text: &[u8]) -> Option<IpAddr> {
    read(std::str::from_utf8(text).ok()?)
}

/// The host behind an address: the IPv4 address inside a mapped or NAT64 address, else the address
/// itself.
#[inline]
pub(crate) fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => nat64_ipv4(v6).map_or(v6.into(), IpAddr::V4),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The network of an IPv6 address with a prefix of this length, or the IPv4 address itself.
#[inline]
pub(crate) fn group(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match host(address) {
        IpAddr::V6(v6) => mask(v6.into(), ipv6_prefix),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The public IPv4 address inside a NAT64 address.
fn nat64_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] = address.octets() else {
        return None;
    };
    Some(Ipv4Addr::new(a, b, c, d)).filter(|v4| is_public(*v4))
}

fn is_public(address: Ipv4Addr) -> bool {
    let is_shared = matches!(address.octets(), [100, 64..=127, ..]);
    let is_this_network = matches!(address.octets(), [0, ..]);
    !(is_shared
        || is_this_network
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast())
}

/// Parses what follows an opening bracket. Only IPv6 addresses are written in brackets.
fn bracketed(rest: &str) -> Option<Ipv6Addr> {
    let (inside, after) = rest.split_once(']')?;
    let is_complete = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
    zoned(inside).filter(|_| is_complete)
}

/// Parses an address without brackets. Only IPv4 may have a port here.
fn bare(text: &str) -> Option<IpAddr> {
    let v4 = match text.split_once(':') {
        Some((v4, port)) if is_port(port) => v4,
        _ => text,
    };
    v4.parse()
        .map(IpAddr::V4)
        .ok()
        .or_else(|| zoned(text).map(IpAddr::V6))
}

/// Parses an IPv6 address with an optional zone.
fn zoned(text: &str) -> Option<Ipv6Addr> {
    match text.split_once('%') {
        Some((address, zone)) => address.parse().ok().filter(|_| is_zone(zone)),
        None => text.parse().ok(),
    }
}

/// `parse` alone would also accept a sign and any number of leading zeros.
fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_zone(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (1..=ZONE_MAX).contains(&text.len()) && text.bytes().all(is_name)
}

#[cfg(test)]
mod tests;
