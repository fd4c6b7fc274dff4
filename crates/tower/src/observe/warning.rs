//! Mistakes that are easily made and hard to see, each told with a code that a page explains.

use std::fmt;

/// A mistake that the layer has reason to suspect. `docs/warnings.md` has a section for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Layers are made and thrown away with every request, and their counters may be too.
    MadePerRequest,
    /// A proxy says for whom it speaks, and is not trusted.
    UntrustedProxy,
    /// A request meets the same limit twice.
    AppliedTwice,
    /// The key is the address of a machine in one's own network.
    PrivatePeer,
}

impl Warning {
    const fn code(self) -> &'static str {
        match self {
            Self::MadePerRequest => "TG001",
            Self::UntrustedProxy => "TG002",
            Self::AppliedTwice => "TG003",
            Self::PrivatePeer => "TG004",
        }
    }

    /// Tells it, with what it was seen in.
    #[cold]
    pub(crate) fn tell(self, seen: &str) {
        tracing::warn!(
            code = self.code(),
            seen,
            "{self} (see docs/warnings.md#{})",
            self.code().to_lowercase()
        );
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MadePerRequest => {
                "rate limit layers are made and dropped with each request; make the limiter and the layer once, at the \
                 start, or nothing is counted for longer than a request"
            }
            Self::UntrustedProxy => {
                "a peer says for whom it speaks and is not trusted, so all its clients count as one; name it with \
                 `by::client_address().behind(..)` if it is your proxy"
            }
            Self::AppliedTwice => {
                "a request meets the same limit twice and is charged twice; apply it in one place, or name two limits"
            }
            Self::PrivatePeer => {
                "requests are counted under an address of a private network, which may be a load balancer that all \
                 clients share; name it with `by::client_address().behind(..)` if it is one"
            }
        })
    }
}
