//! The client address, taken from forwarding headers only if a trusted proxy sent them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use tollgate::KeyParts;
use tollgate_subject::ClientResolver;

use super::extractor::{KeyExtractor, MissingKey};
use crate::observe::warning::{PRIVATE_PEER, UNTRUSTED_PROXY, Warning};
use crate::request_head::RequestHead;

/// The headers in which proxies forward the client address. Constants, so that no name is parsed
/// per request.
const FORWARDING_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
    FORWARDED,
];

/// How many requests are inspected for an untrusted proxy. Usually the first one shows it.
const INSPECTED_REQUESTS: u32 = 1_024;
/// After those, only connections from every 64th port are inspected. That is cheap, and still
/// detects a proxy that is added later.
const INSPECTED_PORT_STEP: u16 = 64;

/// The client address; IPv6 addresses are grouped by the prefix that one customer gets.
///
/// By default this is the peer of the connection, and forwarding headers are ignored. Behind a
/// load balancer, name the trusted proxies with [`behind`](ClientAddress::behind):
///
/// ```
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{ClientResolver, ForwardedBy, RateLimitLayer, by};
///
/// // The load balancers are in 10.0.0.0/8 and append to `X-Forwarded-For`.
/// // An IPv6 customer has a /56.
/// let clients = ClientResolver::new(vec!["10.0.0.0/8".parse()?], 56, ForwardedBy::XForwardedFor)?;
/// let address = by::client_address().behind(clients);
/// # let _ = address;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn client_address() -> ClientAddress {
    ClientAddress::default()
}

/// The client address as a key. Created by [`client_address`]; clone it to use it in several
/// layers.
#[derive(Clone, Debug, Default)]
pub struct ClientAddress {
    resolver: ClientResolver,
    /// Shared by clones, so that layers that share the key log a warning once.
    inspection: Arc<ProxyInspection>,
}

/// The search for a proxy that is not trusted.
#[derive(Debug, Default)]
struct ProxyInspection {
    /// Requests inspected so far, at most [`INSPECTED_REQUESTS`].
    requests: AtomicU32,
    /// Whether a warning has been logged.
    has_warned: AtomicBool,
}

impl ClientAddress {
    /// Trusts these proxies to forward the client address.
    #[must_use]
    pub fn behind(self, clients: ClientResolver) -> Self {
        Self {
            resolver: clients,
            ..self
        }
    }

    /// Whether every client is the peer of its connection.
    pub(crate) const fn is_peer(&self) -> bool {
        !self.resolver.trusts_any()
    }

    /// Writes the address of the peer if it is a group of its own and nothing else has to be done:
    /// the usual case.
    #[inline(always)]
    pub(crate) fn try_write_peer(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> bool {
        match head.peer_extension() {
            Some(SocketAddr::V4(peer)) if !self.is_inspected(peer.port()) => {
                parts.address(IpAddr::V4(*peer.ip()));
                true
            }
            _ => false,
        }
    }

    /// Writes the group of the client behind the peer. A function of its own, to keep the usual
    /// path short.
    #[inline(never)]
    fn write_client(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> Result<(), MissingKey> {
        let peer = head.peer_socket().ok_or_else(no_peer_address)?;
        let (peer, port, headers) = (peer.ip(), peer.port(), head.headers());
        if !self.resolver.trusts(peer) && self.is_inspected(port) {
            self.inspect(peer, headers);
        }
        let client = self.resolver.address(peer, headers);
        parts.address(self.resolver.group(client));
        Ok(())
    }

    /// Whether to inspect a request from this port of a peer that is not trusted.
    #[inline]
    fn is_inspected(&self, port: u16) -> bool {
        let inspection = &*self.inspection;
        let is_early = inspection.requests.load(Relaxed) < INSPECTED_REQUESTS;
        (is_early || port.is_multiple_of(INSPECTED_PORT_STEP))
            && !inspection.has_warned.load(Relaxed)
    }

    /// Inspects a request for an untrusted proxy.
    #[cold]
    fn inspect(&self, peer: IpAddr, headers: &HeaderMap) {
        let requests = &self.inspection.requests;
        if requests.load(Relaxed) < INSPECTED_REQUESTS {
            requests.fetch_add(1, Relaxed);
        }
        if let Some(warning) = untrusted_proxy_warning(peer, headers) {
            self.warn_once(peer, warning);
        }
    }

    /// Logs once that many clients probably share one key, because the peer is an untrusted proxy.
    fn warn_once(&self, peer: IpAddr, warning: Warning) {
        if !self.inspection.has_warned.swap(true, Relaxed) {
            warning.log(&peer.to_string());
        }
    }
}

impl KeyExtractor for ClientAddress {
    fn extract(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> Result<(), MissingKey> {
        if self.is_peer() && self.try_write_peer(head, parts) {
            return Ok(());
        }
        self.write_client(head, parts)
    }
}

/// The warning to log if this peer is probably a proxy and not a client.
fn untrusted_proxy_warning(peer: IpAddr, headers: &HeaderMap) -> Option<Warning> {
    let is_forwarded = FORWARDING_HEADERS
        .iter()
        .any(|name| headers.contains_key(name));
    if is_forwarded {
        return Some(UNTRUSTED_PROXY);
    }
    is_private(peer).then_some(PRIVATE_PEER)
}

/// Whether the address belongs to a private network, where load balancers usually are. Loopback
/// addresses do not count, because applications are tried out locally.
fn is_private(peer: IpAddr) -> bool {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cold]
fn no_peer_address() -> MissingKey {
    let reason = "a limit uses the client address as its key, but the request has no peer \
                  address; with axum, enable the feature `axum` and serve \
                  `into_make_service_with_connect_info::<SocketAddr>()`; with tonic, enable the \
                  feature `tonic`; otherwise insert a `tollgate_tower::Peer` into the request's \
                  extensions";
    MissingKey::Misconfigured {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_networks_are_private_and_loopback_is_not() {
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
