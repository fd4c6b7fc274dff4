//! Observability: hooks, log events, metrics and warnings about decisions.

mod hooks;
#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, reason = "without the feature nothing is logged")
)]
pub(crate) mod log;
#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "without the feature nothing is recorded")
)]
pub(crate) mod metrics;
mod monitor;
pub(crate) mod warning;

pub(crate) use self::hooks::DecisionHooks;
pub(crate) use self::monitor::LayerMonitor;
