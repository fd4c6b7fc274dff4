//! The client's address, behind trusted proxies only.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use tollgate::KeyParts;
use tollgate_subject::ClientResolver;

use super::{Missing, Subject};
use crate::head::Head;
use crate::observe::Warning;

/// How proxies say for whom they speak: made when this is compiled, because every request is looked
/// at for them.
const SPEAKING: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
    FORWARDED,
];

/// How many requests are looked at for a proxy that is not trusted: usually the first shows it.
const LOOKED_AT: u32 = 1_024;
/// After those, connections from one port of so many are, so that a proxy that comes later is
/// noticed too.
const PORTS_APART: u16 = 64;

/// The client's address, IPv6 by the network that one customer is given. Without
/// [`behind`](ClientAddress::behind) that is the other end of the connection, whatever the
/// request's headers say.
///
/// ```
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{ClientResolver, ForwardedBy, RateLimitLayer, by};
///
/// // The load balancers are in 10.0.0.0/8 and append to `X-Forwarded-For`. An IPv6 customer is a /56.
/// let clients = ClientResolver::new(vec!["10.0.0.0/8".parse()?], 56, ForwardedBy::XForwardedFor)?;
/// let address = by::client_address().behind(clients);
/// # let _ = address;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn client_address() -> ClientAddress {
    ClientAddress::default()
}

/// See [`client_address`].
#[derive(Debug, Default)]
pub struct ClientAddress {
    clients: ClientResolver,
    /// Requests looked at, as far as anybody counts.
    looked: AtomicU32,
    /// Whether anybody was told that all clients may count as one.
    told: AtomicBool,
}

impl ClientAddress {
    /// Believes the proxies that these clients come through.
    #[must_use]
    pub fn behind(self, clients: ClientResolver) -> Self {
        Self { clients, ..self }
    }

    /// Whether this request is looked at for a proxy that is not trusted.
    fn looks(&self, peer: SocketAddr) -> bool {
        if self.told.load(Relaxed) || self.clients.trusts(peer.ip()) {
            return false;
        }
        if self.looked.load(Relaxed) < LOOKED_AT {
            self.looked.fetch_add(1, Relaxed);
            return true;
        }
        peer.port().is_multiple_of(PORTS_APART)
    }

    /// Says once when many clients are likely to count as one: a proxy stands in between and is not
    /// trusted.
    #[cold]
    fn tell(&self, peer: IpAddr, warning: Warning) {
        if !self.told.swap(true, Relaxed) {
            warning.tell(&peer.to_string());
        }
    }
}

impl Subject for ClientAddress {
    fn write(&self, head: &Head<'_>, parts: &mut KeyParts) -> Result<(), Missing> {
        let Some(peer) = head.other_end() else {
            return Err(no_peer());
        };
        if self.looks(peer)
            && let Some(warning) = suspicion(peer.ip(), head.headers())
        {
            self.tell(peer.ip(), warning);
        }
        parts.address(
            self.clients
                .group(self.clients.address(peer.ip(), head.headers())),
        );
        Ok(())
    }
}

/// Why this peer may not be a client.
fn suspicion(peer: IpAddr, headers: &HeaderMap) -> Option<Warning> {
    if SPEAKING.iter().any(|name| headers.contains_key(name)) {
        return Some(Warning::UntrustedProxy);
    }
    is_private(peer).then_some(Warning::PrivatePeer)
}

/// True for addresses of one's own network, where load balancers live. Not for this machine itself,
/// which is where applications are tried out.
fn is_private(peer: IpAddr) -> bool {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cold]
fn no_peer() -> Missing {
    let what = "a limit counts by the client's address, and the request has none; with axum, enable the feature `axum` and \
                serve `into_make_service_with_connect_info::<SocketAddr>()`; with tonic, the feature `tonic`; with anything \
                else, put a `tollgate_tower::Peer` into the request's extensions";
    Missing::Broken {
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ones_own_network_are_private_and_this_machine_is_not() {
        for private in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "::ffff:10.0.0.1",
            "fd00::1",
            "fe80::1",
        ] {
            assert!(
                is_private(private.parse().expect("an address")),
                "{private}"
            );
        }
        for other in [
            "127.0.0.1",
            "::1",
            "203.0.113.7",
            "172.32.0.1",
            "2001:db8::1",
        ] {
            assert!(!is_private(other.parse().expect("an address")), "{other}");
        }
    }
}
