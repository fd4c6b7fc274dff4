//! Which client a request comes from.

use std::net::IpAddr;

use http::HeaderMap;

use crate::address::host;
use crate::forwarded::{ForwardedBy, Hop};
use crate::network::{Network, mask};

/// The most networks of proxies. Every one is compared with every hop, so that their number bounds
/// the work.
const TRUSTED_MAX: usize = 1_024;

const IPV6_PREFIX: u8 = 64;
const IPV6_BITS: u8 = 128;

/// Finds the client behind a request, and the group of addresses that one client can use.
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

/// Why clients cannot be found this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientResolverError {
    /// IPv6 addresses have no such prefix. None at all would put everyone into one group.
    #[error(
        "IPv6 addresses cannot be grouped by {found} bits; use 1 to {IPV6_BITS}, such as {IPV6_PREFIX}"
    )]
    Prefix {
        /// The number of bits.
        found: u8,
    },
    /// More networks than are compared for a request.
    #[error("there are {found} networks of trusted proxies; at most {TRUSTED_MAX} are possible")]
    TooManyNetworks {
        /// The number of networks.
        found: usize,
    },
}

/// Trusts no proxy and groups IPv6 by /64, the smallest network that a customer is given.
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
    /// Believes `header` where it comes from a trusted network, and groups IPv6 addresses by their
    /// first `ipv6_prefix` bits.
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

    /// The client's address, for a request that `peer` sent with these headers.
    ///
    /// Only a trusted peer is believed, and from there only what trusted proxies wrote: the list is
    /// read from the right, past trusted proxies, up to the first address that is none. If all are
    /// trusted, the client is the leftmost, which then is a machine of one's own. Whatever is not
    /// an address ends the search at the hop that was found last, an empty element and the
    /// unspecified address included: the proxy that wrote it did not know its client, and what
    /// stands further left may be the client's invention.
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return host(peer);
        }
        let hops = self.header.hops(headers);
        host(match self.header {
            ForwardedBy::XForwardedFor | ForwardedBy::Forwarded => self.first_stranger(peer, hops),
            ForwardedBy::XRealIp => only(hops).unwrap_or(peer),
        })
    }

    /// What stands for all addresses that one client can use: the network of an IPv6 address, and
    /// an IPv4 address itself.
    pub fn group(&self, address: IpAddr) -> IpAddr {
        match host(address) {
            IpAddr::V6(v6) => mask(v6.into(), self.ipv6_prefix),
            v4 @ IpAddr::V4(_) => v4,
        }
    }

    /// Whether this is one of the proxies whose word counts.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(peer))
    }

    fn first_stranger(&self, peer: IpAddr, hops: impl Iterator<Item = Hop>) -> IpAddr {
        let mut last = peer;
        for hop in hops {
            let Some(address) = hop else { break };
            last = address;
            if !self.trusts(address) {
                break;
            }
        }
        last
    }
}

/// The only value. A header that names one client has one; who sends two hopes that the wrong one
/// is read.
fn only(mut hops: impl Iterator<Item = Hop>) -> Hop {
    let first = hops.next()?;
    if hops.next().is_some() { None } else { first }
}

#[cfg(test)]
mod tests;
