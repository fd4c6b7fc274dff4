//! Warnings about mistakes that are easy to make and hard to notice.

use super::log;

/// A mistake that the layer has reason to suspect. `docs/warnings.md` has a section for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    code: &'static str,
    /// What is probably wrong, and how to fix it.
    message: &'static str,
}

/// Layers are created and dropped with every request, and so, probably, are their counters.
pub(crate) const LAYER_PER_REQUEST: Warning = Warning {
    code: "TG001",
    message: "rate limit layers are created and dropped with each request, so nothing is counted \
              across requests; create the limiter and the layer once at startup",
};
/// A peer that is not trusted sends a forwarding header.
pub(crate) const UNTRUSTED_PROXY: Warning = Warning {
    code: "TG002",
    message: "an untrusted peer sent a forwarding header, so all clients behind that peer share \
              one key; if it is your proxy, trust it with `by::client_address().behind(..)`",
};
/// The same limit is applied to a request twice.
pub(crate) const LIMIT_APPLIED_TWICE: Warning = Warning {
    code: "TG003",
    message: "the same limit is applied to a request twice, and charged twice; apply it in one \
              place, or use two limits",
};
/// The key is an address of a private network.
pub(crate) const PRIVATE_PEER: Warning = Warning {
    code: "TG004",
    message: "the client address is in a private network and may be a load balancer that all \
              clients share; if so, trust it with `by::client_address().behind(..)`",
};

impl Warning {
    /// Logs the warning. `detail` is the peer address or the name of the limit that caused it.
    #[cold]
    pub(crate) fn log(self, detail: &str) {
        log::warning(self.code, self.message, detail);
    }
}
