//! Determines which client a request comes from.

use std::net::IpAddr;

use http::HeaderMap;

use crate::address::{group, host};
use crate::forwarded::ForwardedBy;
use crate::network::Network;

/// The maximum number of trusted networks. Each is compared with every hop, so this bounds the work
/// per request.
const TRUSTED_MAX: usize = 1_024;

const IPV6_PREFIX: u8 = 64;
const IPV6_BITS: u8 = 128;

/// Determines the client's address behind trusted proxies, and groups the addresses that one client
/// can use.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_subject::{ClientResolver, ForwardedBy};
///
/// let clients = ClientResolver::new(vec!["10.0.0.0/8".parse()?], 64, ForwardedBy::Forwarded)?;
/// let mut headers = HeaderMap::new();
/// headers.append("forwarded", r#"for=198.51.100.1, for="[2001:db8:1:2::7]:4711""#.parse()?);
///
/// let client = clients.address("10.0.0.3".parse()?, &headers);
/// assert_eq!(client.to_string(), "2001:db8:1:2::7");
/// assert_eq!(clients.group(client).to_string(), "2001:db8:1:2::");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientResolver {
    trusted: Vec<Network>,
    ipv6_prefix: u8,
    header: ForwardedBy,
}

/// The reason why a [`ClientResolver`] cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientResolverError {
    /// The IPv6 prefix length is out of range. A length of 0 would put all clients into one group.
    #[error("invalid IPv6 prefix length {found}: must be between 1 and {IPV6_BITS}")]
    Prefix {
        /// The prefix length in bits.
        found: u8,
    },
    /// There are too many trusted networks.
    #[error("too many trusted proxies: found {found}, at most {TRUSTED_MAX} are allowed")]
    TooManyNetworks {
        /// The number of networks.
        found: usize,
    },
}

/// Trusts no proxy and groups IPv6 addresses by /64, the smallest network that a customer gets.
impl Default for ClientResolver {
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            ipv6_prefix: IPV6_PREFIX,
            header: ForwardedBy::default(),
        }
    }
}

impl ClientResolver {
    /// Creates a resolver that believes `header` if it comes from a trusted network, and that
    /// groups IPv6 addresses by their first `ipv6_prefix` bits.
    pub fn new(
        trusted: Vec<Network>,
        ipv6_prefix: u8,
        header: ForwardedBy,
    ) -> Result<Self, ClientResolverError> {
        if !(1..=IPV6_BITS).contains(&ipv6_prefix) {
            return Err(ClientResolverError::Prefix { found: ipv6_prefix });
        }
        if trusted.len() > TRUSTED_MAX {
            return Err(ClientResolverError::TooManyNetworks {
                found: trusted.len(),
            });
        }

        Ok(Self {
            trusted,
            ipv6_prefix,
            header,
        })
    }

    /// The address of the client, for a request that `peer` sent with these headers.
    ///
    /// The header is believed only if the peer is trusted. The list is read from the right, past
    /// trusted proxies, to the first address that is not trusted: that is the client. If all
    /// addresses are trusted, the client is the leftmost, an internal machine.
    ///
    /// An element that is not an address ends the search at the last valid hop. This includes empty
    /// elements and the unspecified address: the proxy that wrote it did not know its client, and
    /// everything further left may be forged.
    #[inline]
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if self.trusts(peer) {
            self.forwarded_address(peer, headers)
        } else {
            host(peer)
        }
    }

    /// The address of the client, for a request that a trusted peer sent.
    fn forwarded_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let hops = self.header.hops(headers);
        host(match self.header {
            ForwardedBy::XForwardedFor | ForwardedBy::Forwarded => self.first_untrusted(peer, hops),
            ForwardedBy::XRealIp => only(hops).unwrap_or(peer),
        })
    }

    /// The group of addresses that one client can use: the network of an IPv6 address, or the IPv4
    /// address itself.
    #[inline]
    pub fn group(&self, address: IpAddr) -> IpAddr {
        group(address, self.ipv6_prefix)
    }

    /// Whether there are trusted proxies at all.
    #[inline]
    pub const fn trusts_any(&self) -> bool {
        !self.trusted.is_empty()
    }

    /// Whether this address is a trusted proxy.
    #[inline]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(peer))
    }

    fn first_untrusted(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut last = peer;
        for address in hops.map_while(|hop| hop) {
            last = address;
            if !self.trusts(address) {
                break;
            }
        }
        last
    }
}

/// The only hop of a header that must have one value. Two values mean that one may be forged, so
/// neither is used.
fn only(mut hops: impl Iterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
    let first = hops.next()?;
    if hops.next().is_some() { None } else { first }
}

#[cfg(test)]
mod tests;
