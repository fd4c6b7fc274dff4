//! Selects the limits that apply to a request, and notes what cannot be selected.

use std::sync::atomic::Ordering::Relaxed;

use tollgate::Rule;
use tollgate::store::Intent;
use tollgate_rules::{Attributes, MissingKeyPolicy, RequestedLimit, SelectError, Selection};

use super::active::ActiveConfig;
use super::denial::RequestOrigin;

/// What a request asks for in addition to its attributes.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'q> {
    /// The limits to check; none checks every limit whose conditions match.
    pub limits: Option<&'q [RequestedLimit<'q>]>,
    /// Units the request costs; none uses the cost that each limit configures.
    pub cost: Option<u64>,
    /// Whether the request is charged or only peeks.
    pub intent: Intent,
    /// Where the request came from.
    pub origin: &'q RequestOrigin,
}

impl CheckOptions<'_> {
    /// The same, for an operation that charges nothing, so that nothing of it is counted.
    pub(super) const fn without_charge(self) -> Self {
        Self {
            intent: Intent::Peek,
            ..self
        }
    }
}

impl ActiveConfig {
    /// The rules of the limits that a request brings along.
    pub(super) fn inline_rules(&self, options: CheckOptions<'_>) -> Result<Vec<Rule>, SelectError> {
        let limits = options.limits.unwrap_or_default();
        let config = &self.config.inline_limits;
        self.inline.read(config, &self.selector, limits)
    }

    /// Selects the limits that apply to a request. `inline` has the rules that it brings along.
    pub(super) fn select<'r>(
        &'r self,
        attributes: &impl Attributes,
        inline: &'r [Rule],
        options: CheckOptions<'_>,
    ) -> Result<Selection<'r>, SelectError> {
        let CheckOptions { limits, cost, .. } = options;
        let selector = &self.selector;
        let count_skip = |index: usize| {
            if options.intent.is_charge() {
                self.metrics[index].count_skip();
            }
        };
        if let Some(limits) = limits {
            return selector.select_requested(limits, inline, attributes, cost, count_skip);
        }

        let mut selection = Selection::new();
        selector.for_each_selected(
            attributes,
            cost,
            MissingKeyPolicy::Error,
            |index, demands| {
                if demands.is_empty() {
                    count_skip(index);
                }
                selection.extend(demands);
            },
        )?;
        Ok(selection)
    }

    /// Notes that a proxy uses forward-auth. The first time, logs what of the configuration cannot
    /// work with it.
    pub fn note_forward_auth(&self) {
        if self.is_behind_proxy.load(Relaxed) || self.is_behind_proxy.swap(true, Relaxed) {
            return;
        }
        for warning in self.forward_auth_warnings() {
            tracing::warn!("{warning}");
        }
    }

    /// What of the configuration cannot work with forward-auth, if a proxy uses it and the file
    /// does not say so.
    pub(super) fn forward_auth_warnings(&self) -> impl Iterator<Item = &String> {
        let config = &self.config;
        let is_noted = self.is_behind_proxy.load(Relaxed);
        let warnings = config.forward_auth_warnings.iter();
        warnings.filter(move |warning| is_noted && !config.warnings.contains(warning))
    }
}
