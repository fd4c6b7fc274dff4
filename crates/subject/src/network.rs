//! IP networks in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The prefix length of IPv4-mapped IPv6 addresses, `::ffff:0:0/96`.
const MAPPED_PREFIX: u8 = 96;
/// The most characters of a text that an error shows.
const FOUND_MAX: usize = 64;

/// An IP network such as `10.0.0.0/8` or `2001:db8::/32`. A bare address is a network of one
/// address.
///
/// IPv4-mapped IPv6 addresses and networks are treated as IPv4. IPv4 addresses are therefore in no
/// IPv6 network, not even in `::/0`.
///
/// ```
/// use tollgate_subject::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()));
/// assert_eq!("::ffff:10.0.0.0/104".parse::<Network>()?, network);
///
/// let error = "10.1.2.3/8".parse::<Network>().unwrap_err();
/// assert!(error.to_string().contains("10.0.0.0/8"));
/// # Ok::<(), tollgate_subject::NetworkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// The reason why a text is not a valid network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The part before the slash is not an address.
    #[error(
        "invalid network {found:?}: expected one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1"
    )]
    Address {
        /// The text, cut to 64 characters.
        found: String,
    },
    /// The part after the slash is not a valid prefix length.
    #[error("invalid network {found:?}: the prefix length must be between 0 and {max}")]
    Prefix {
        /// The text, cut to 64 characters.
        found: String,
        /// The number of bits of the address.
        max: u8,
    },
    /// The address has bits set after the prefix, so either the address or the prefix is a mistake.
    #[error("invalid network {found:?}: host bits are set; did you mean {suggestion}?")]
    HostBits {
        /// The text.
        found: String,
        /// The network that contains the address.
        suggestion: Network,
    },
}

impl Network {
    /// Whether the network contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        mask(address.to_canonical(), self.prefix) == self.first
    }

    /// The length of the prefix, in bits.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The network with this prefix length that contains the address. The prefix length of a mapped
    /// address is converted, too.
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        let (address, prefix) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), v4 @ IpAddr::V4(_)) => (v4, unmapped(prefix)),
            (_, same) => (same, prefix),
        };
        Self {
            first: mask(address, prefix),
            prefix,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let found = text.chars().take(FOUND_MAX).collect();
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(NetworkError::Address { found });
        };

        let max = bits(address);
        let prefix = prefix.map_or(Some(max), number);
        let Some(prefix) = prefix.filter(|prefix| *prefix <= max) else {
            return Err(NetworkError::Prefix { found, max });
        };

        let network = Self::around(address, prefix);
        if mask(address, prefix) == address {
            Ok(network)
        } else {
            Err(NetworkError::HostBits {
                found,
                suggestion: network,
            })
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// Clears all bits of an address after the prefix.
pub(crate) fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    let cleared = u32::from(bits(address).saturating_sub(prefix));
    match address {
        IpAddr::V4(v4) => {
            Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(cleared).unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(cleared).unwrap_or(0)).into()
        }
    }
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Converts the prefix length of a mapped network to IPv4. In `::ffff:10.0.0.0/8`, the user means
/// eight bits of the IPv4 address; eight bits of the IPv6 address would include unrelated networks.
const fn unmapped(prefix: u8) -> u8 {
    match prefix.checked_sub(MAPPED_PREFIX) {
        Some(inside) => inside,
        None if prefix < 32 => prefix,
        None => 32,
    }
}

/// Parses a number. `parse` alone would also accept a sign and leading zeros.
fn number(text: &str) -> Option<u8> {
    text.parse()
        .ok()
        .filter(|number: &u8| number.to_string() == text)
}

#[cfg(test)]
mod tests;
