//! What forward-auth warns about, each once, however many requests follow.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::Request;
use hyper::header::FORWARDED;
use parking_lot::Mutex;
use tollgate_gate::{ActiveConfig, DecideError};
use tollgate_rules::SelectError;

/// The most limits whose refusals are logged.
const LIMITS_MAX: usize = 100;

/// Remembers what was logged.
#[derive(Debug, Default)]
pub(crate) struct ForwardAuthWarnings {
    untrusted_proxy: AtomicBool,
    /// The limits whose key was missing.
    refusing: Mutex<HashSet<String>>,
}

impl ForwardAuthWarnings {
    /// Logs a warning when the peer sends client addresses but is not a trusted proxy: all its
    /// clients are then counted as one.
    pub(super) fn check_proxy<B>(
        &self,
        active: &ActiveConfig,
        request: &Request<B>,
        peer: SocketAddr,
    ) {
        let headers = request.headers();
        let has_client_address = ["x-forwarded-for", "x-real-ip"]
            .iter()
            .any(|name| headers.contains_key(*name))
            || headers.contains_key(FORWARDED);

        if has_client_address
            && !self.untrusted_proxy.load(Relaxed)
            && !active.selector.clients().trusts(peer.ip())
            && !self.untrusted_proxy.swap(true, Relaxed)
        {
            tracing::warn!(
                peer = %peer.ip(),
                "untrusted proxy: its client addresses are ignored and all its clients count as \
                 one; add it to client_ip.trusted_proxies if it is yours"
            );
        }
    }

    /// Logs a warning when a limit refuses requests that lack its key: often no request has it.
    #[cold]
    pub(super) fn note_refusal(&self, error: &DecideError) {
        let DecideError::Select(SelectError::MissingAttribute { limit, attribute }) = error else {
            return;
        };

        let mut refusing = self.refusing.lock();
        if refusing.len() < LIMITS_MAX && refusing.insert(limit.clone()) {
            tracing::warn!(
                limit,
                attribute,
                "forward-auth refused a request that lacks the key of a limit; write `optional: \
                 true` if such requests may pass; request_errors_total counts further ones"
            );
        }
    }
}
