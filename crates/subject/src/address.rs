//! Addresses as proxies and callers write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest text that is looked at: an IPv6 address in full with brackets, a zone and a port is
/// well below.
const ADDRESS_MAX: usize = 128;

/// The longest name of a zone: twice what Linux allows for a network interface.
const ZONE_MAX: usize = 32;

/// Why a text is not a client's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no text.
    #[error("the address is empty; write one such as 203.0.113.7 or 2001:db8::1")]
    Empty,
    /// The text is longer than any address.
    #[error("the address has {found} bytes; {ADDRESS_MAX} are more than any address needs")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The text is no address, or one that stands for no host.
    #[error(
        "{found:?} is not the address of a client; write one such as 203.0.113.7, 2001:db8::1 or [2001:db8::1]:443"
    )]
    Invalid {
        /// The text.
        found: String,
    },
}

/// Reads the address that a caller states as its client's, with or without brackets and port.
///
/// * An IPv4 address mapped into IPv6 is that IPv4 address, so that no host has two names.
/// * A NAT64 address (`64:ff9b::/96`) is the IPv4 address inside. All of them lie in one /64, so
///   that the whole IPv4 Internet would otherwise share one counter. Only public addresses count,
///   as the prefix is defined for no others: nobody becomes `10.0.0.1` or `127.0.0.1` that way.
/// * A zone (`fe80::1%eth0`) is dropped. It names an interface of the machine that wrote it and
///   means nothing elsewhere; if it were kept, one host could have as many names as it can invent
///   zones.
/// * The unspecified addresses `0.0.0.0` and `::` are refused: they are written where an address is
///   not known, and clients that nobody knows must not share a counter by accident.
/// * Octal, short and numeric forms (`010.0.0.1`, `1.2`) are refused, as programs disagree on what
///   they mean.
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
    if let Some(usual) = usual(text.as_bytes()) {
        return Ok(IpAddr::V4(usual));
    }
    match text.len() {
        0 => Err(AddressError::Empty),
        found if found > ADDRESS_MAX => Err(AddressError::TooLong { found }),
        _ => read(text).map(host).ok_or_else(|| AddressError::Invalid {
            found: text.to_owned(),
        }),
    }
}

/// A plain IPv4 address, which most are, read in one pass; `None` for everything else, be it an
/// address or not.
#[inline]
fn usual(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut address, mut octet, mut digits, mut points) = (0_u32, 0_u32, 0, 0);
    for byte in text {
        match byte {
            // A zero in front may mean octal.
            b'0'..=b'9' if digits == 0 || octet > 0 => {
                octet = octet * 10 + u32::from(byte - b'0');
                digits += 1;
                if octet > 255 {
                    return None;
                }
            }
            b'.' if digits > 0 && points < 3 => {
                (address, octet, digits) = (address << 8 | octet, 0, 0);
                points += 1;
            }
            _ => return None,
        }
    }
    let address = address << 8 | octet;
    (points == 3 && digits > 0 && address > 0).then(|| Ipv4Addr::from_bits(address))
}

/// The address in a text. A NAT64 address stays one here: whether to trust it is decided about the
/// address as it is.
pub(crate) fn read(text: &str) -> Option<IpAddr> {
    let address = match text.strip_prefix('[') {
        Some(rest) => bracketed(rest)?.into(),
        None => bare(text)?,
    };
    Some(address.to_canonical()).filter(|address| !address.is_unspecified())
}

/// The host that an address stands for: mapped and NAT64 addresses are the IPv4 address inside.
pub(crate) fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => translated(v6).map_or(v6.into(), IpAddr::V4),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
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

/// What follows an opening bracket: only IPv6 is written so.
fn bracketed(rest: &str) -> Option<Ipv6Addr> {
    let (inside, after) = rest.split_once(']')?;
    let is_complete = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
    zoned(inside).filter(|_| is_complete)
}

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

fn zoned(text: &str) -> Option<Ipv6Addr> {
    match text.split_once('%') {
        Some((address, zone)) => address.parse().ok().filter(|_| is_zone(zone)),
        None => text.parse().ok(),
    }
}

/// The standard library would also take a sign, and any number of zeros.
fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_zone(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (1..=ZONE_MAX).contains(&text.len()) && text.bytes().all(is_name)
}

#[cfg(test)]
mod tests;
