//! Every event that the layer logs.

use tollgate::{Decision, Error};

/// Logs an event if the feature `tracing` is enabled.
macro_rules! event {
    ($level:ident, $($argument:tt)+) => {
        #[cfg(feature = "tracing")]
        tracing::$level!($($argument)+);
    };
}

/// Whether [`decision`] logs allowed requests.
#[inline]
pub(crate) fn traces_decisions() -> bool {
    #[cfg(feature = "tracing")]
    let is_traced = {
        // A function of its own, to keep the usual path short.
        #[cold]
        fn is_enabled() -> bool {
            tracing::enabled!(tracing::Level::TRACE)
        }
        tracing::Level::TRACE <= tracing::level_filters::LevelFilter::current() && is_enabled()
    };
    #[cfg(not(feature = "tracing"))]
    let is_traced = false;
    is_traced
}

/// A decision, at a low level because a client over its limit causes many denials.
pub(crate) fn decision(decision: &Decision) {
    let source = decision.source().as_str();
    match decision.denied_by() {
        None => {
            event!(
                trace,
                source,
                remaining = decision.remaining(),
                "request allowed"
            );
        }
        Some(limit) => {
            event!(
                debug,
                limit = limit.name(),
                source,
                retry_after_ms = decision.retry_after().map(|delay| delay.as_millis()),
                "request denied"
            );
        }
    }

    let is_denied = decision
        .limits()
        .iter()
        .filter(|limit| limit.retry().is_some());
    for limit in is_denied.filter(|limit| limit.is_shadow()) {
        event!(
            debug,
            limit = limit.name(),
            source,
            "shadow limit would have denied the request"
        );
    }
}

/// The store became unavailable, or is available again.
pub(crate) fn degradation(is_degraded: bool) {
    if is_degraded {
        event!(
            warn,
            "store unavailable: rate limit layer decides by the limits' failure policies"
        );
    } else {
        event!(
            info,
            "store available again: rate limit layer decides by the store"
        );
    }
}

/// A settlement failed, or one succeeded again.
pub(crate) fn settlements(has_failed: bool) {
    if has_failed {
        event!(
            warn,
            "store unavailable: actual costs of requests are not charged, their estimates are kept \
             or released as their limits say"
        );
    } else {
        event!(info, "store available again: actual costs are charged");
    }
}

/// The layer is set up wrongly. Clients do not see the reason.
pub(crate) fn misconfiguration(reason: &str) {
    event!(
        error,
        "rate limit layer rejects requests with status 500: {reason}"
    );
}

/// A probable mistake of the application.
#[cold]
pub(crate) fn warning(code: &str, message: &str, detail: &str) {
    event!(
        warn,
        code,
        detail,
        "{message} (see docs/warnings.md#{})",
        code.to_lowercase()
    );
}

/// A call failed that no request waits for.
pub(crate) fn background_failure(error: &Error) {
    event!(debug, %error, "a background call to the limiter failed");
}
