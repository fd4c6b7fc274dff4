//! Networks: an address and how many of its leading bits count.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The leading bits by which an IPv6 address is an IPv4 address in disguise: `::ffff:0:0/96`.
const MAPPED_PREFIX: u8 = 96;

/// A range of addresses such as `10.0.0.0/8` or `2001:db8::/32`; a bare address is the range of
/// itself.
///
/// IPv4 mapped into IPv6 is IPv4, in an address as in the spelling of a network. IPv4 addresses are
/// therefore in no IPv6 network, not even in `::/0`.
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

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// What stands before the slash is no address.
    #[error("{found:?} is not a network; write one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1")]
    Address {
        /// The text, shortened if it is long.
        found: String,
    },
    /// What stands behind the slash is no length of a prefix.
    #[error("{found:?} is not a network: behind the slash stands a number from 0 to {max}")]
    Prefix {
        /// The text, shortened if it is long.
        found: String,
        /// How many bits such an address has.
        max: u8,
    },
    /// The address lies inside the network instead of at its start, so that one of the two is a
    /// mistake.
    #[error("{found:?} names a host inside a network; the network is {right}")]
    HostBits {
        /// The text.
        found: String,
        /// The network that the address lies in.
        right: Network,
    },
}

impl Network {
    /// Whether the address is one of this network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        mask(address.to_canonical(), self.prefix) == self.first
    }

    /// The network of this size that the address lies in. A mapped address takes its prefix along.
    fn around(address: IpAddr, prefix: u8) -> Self {
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
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address {
            found: shortened(text),
        })?;
        let max = bits(address);
        let prefix = match prefix {
            Some(prefix) => number(prefix)
                .filter(|prefix| *prefix <= max)
                .ok_or_else(|| NetworkError::Prefix {
                    found: shortened(text),
                    max,
                })?,
            None => max,
        };
        let network = Self::around(address, prefix);
        if mask(address, prefix) == address {
            Ok(network)
        } else {
            Err(NetworkError::HostBits {
                found: shortened(text),
                right: network,
            })
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// The address with all but its leading bits cleared.
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

/// How many bits count of the IPv4 address inside a mapped one. Who writes `::ffff:10.0.0.0/8`
/// means eight bits of the address inside; to read it as eight bits of the whole would suggest a
/// network with half the world in it.
const fn unmapped(prefix: u8) -> u8 {
    match prefix.checked_sub(MAPPED_PREFIX) {
        Some(inside) => inside,
        None if prefix < 32 => prefix,
        None => 32,
    }
}

/// A number in its only spelling: the standard library would also take a sign and leading zeros.
fn number(text: &str) -> Option<u8> {
    text.parse()
        .ok()
        .filter(|number: &u8| number.to_string() == text)
}

/// Enough of a text to find it again.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
