//! Warnings about mistakes that are easy to make and hard to notice. Each has a code that
//! `docs/warnings.md` explains.

use std::fmt;

/// A mistake that the layer has reason to suspect. `docs/warnings.md` has a section for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Layers are created and dropped with every request, and so, probably, are their counters.
    LayerPerRequest,
    /// A peer that is not trusted sends a forwarding header.
    UntrustedProxy,
    /// The same limit is applied to a request twice.
    LimitAppliedTwice,
    /// The key is an address of a private network.
    PrivatePeer,
}

impl Warning {
    const fn code(self) -> &'static str {
        match self {
            Self::LayerPerRequest => "TG001",
            Self::UntrustedProxy => "TG002",
            Self::LimitAppliedTwice => "TG003",
            Self::PrivatePeer => "TG004",
        }
    }

    /// Logs the warning. `detail` is the peer address or the name of the limit that caused it.
    #[cold]
    pub(crate) fn log(self, detail: &str) {
        tracing::warn!(
            code = self.code(),
            detail,
            "{self} (see docs/warnings.md#{})",
            self.code().to_lowercase()
        );
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self {
            Self::LayerPerRequest => {
                "rate limit layers are created and dropped with each request, so nothing is \
                 counted across requests; create the limiter and the layer once at startup"
            }
            Self::UntrustedProxy => {
                "an untrusted peer sent a forwarding header, so all clients behind that peer share \
                 one key; if it is your proxy, trust it with `by::client_address().behind(..)`"
            }
            Self::LimitAppliedTwice => {
                "the same limit is applied to a request twice, and charged twice; apply it in one \
                 place, or use two limits"
            }
            Self::PrivatePeer => {
                "the client address is in a private network and may be a load balancer that all \
                 clients share; if so, trust it with `by::client_address().behind(..)`"
            }
        };

        f.write_str(message)
    }
}
