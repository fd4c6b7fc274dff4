//! What a response reports: which header fields, and about which limits.

use tollgate::{Decision, LimitOutcome};

/// Which fields to send. Defaults to those that are not of one vendor's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each enables other fields")]
pub struct EnabledFields {
    /// Send `RateLimit-Policy` and `RateLimit`.
    pub ietf: bool,
    /// Send `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub legacy: bool,
    /// Send the fields of the API of `OpenAI`: `x-ratelimit-limit-requests`,
    /// `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests`, such as `6m0s`, and the
    /// same for `tokens`. Each describes the tightest limit that counts in this
    /// [unit](LimitOutcome::unit).
    pub openai: bool,
    /// Send the fields of Anthropic's API: `anthropic-ratelimit-requests-limit`,
    /// `anthropic-ratelimit-requests-remaining` and `anthropic-ratelimit-requests-reset`, such as
    /// `2027-01-01T00:06:00Z`, and the same for `tokens`, `input-tokens` and `output-tokens`.
    pub anthropic: bool,
    /// Send `Retry-After` with denials.
    pub retry_after: bool,
}

impl Default for EnabledFields {
    fn default() -> Self {
        Self {
            ietf: true,
            legacy: true,
            openai: false,
            anthropic: false,
            retry_after: true,
        }
    }
}

impl EnabledFields {
    /// Whether a decision can have any of these fields.
    pub fn apply_to(self, decision: &Decision) -> bool {
        self.describe_allowed()
            || decision.is_degraded()
            || (self.retry_after && !decision.is_allowed())
    }

    /// Whether allowed requests have any of these fields, even if the store is available.
    pub const fn describe_allowed(self) -> bool {
        self.ietf || self.legacy || self.openai || self.anthropic
    }
}

/// The limits that are not shadow limits, as only they can deny a request, and that were asked.
pub(crate) fn enforced(decision: &Decision) -> impl Iterator<Item = &LimitOutcome> {
    let limits = decision.limits().iter();
    limits.filter(|limit| !limit.is_shadow() && limit.is_counted())
}
