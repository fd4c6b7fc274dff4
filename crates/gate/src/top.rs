//! The keys that use the limits of the active configuration most.

use std::cmp::Reverse;

use tollgate::Micros;

use super::active::ActiveConfig;
use crate::top_keys::shared::{self, TopLists};
use crate::top_keys::{KeyUsage, UsageKind, UsageSpan};

/// Which keys to list.
#[derive(Clone, Copy, Debug)]
pub struct TopQuery {
    /// The position of the only limit to list keys of; none lists those of all limits.
    pub limit: Option<usize>,
    /// What to list them by.
    pub kind: UsageKind,
    /// How far back to look.
    pub span: UsageSpan,
    /// The most keys to list.
    pub keys_max: usize,
}

/// A key that uses a limit a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The position of the limit in the configuration.
    pub limit: usize,
    /// The key, and what it used.
    pub usage: KeyUsage,
}

impl ActiveConfig {
    /// Forgets the recorded keys of limits whose key recipe differs in the next configuration: they
    /// would be displayed with the names of other attributes.
    pub(super) fn forget_changed_keys(&self, next: &Self) {
        for (limit, metrics) in next.config.limits.iter().zip(next.metrics()) {
            let before = self.selector.limit(limit.rule.name());
            let is_same = before.is_ok_and(|before| before.key == limit.key);
            if !is_same && let Some(keys) = metrics.keys() {
                keys.clear();
            }
        }
    }

    /// The heaviest keys of this replica and of those that shared their lists, in descending order.
    /// Keys that the active key recipes cannot display are left out.
    pub fn top_keys(&self, query: TopQuery, others: &[TopLists], now: Micros) -> Vec<TopKey> {
        let limits = self.metrics().iter().take(self.config.limits.len());
        let wanted = limits
            .enumerate()
            .filter(|(index, _)| query.limit.is_none_or(|only| only == *index));

        let mut keys = Vec::new();
        for (limit, metrics) in wanted {
            let Some(sketch) = metrics.keys() else {
                continue;
            };
            let own = sketch.top(query.kind, query.span, now);
            let name = metrics.name();
            let summary = shared::merge(own, others, name, query.kind, query.span);
            let shown = summary
                .rows()
                .filter(|row| self.selector.display_key(limit, &row.key).is_some());
            keys.extend(shown.take(query.keys_max).map(|usage| TopKey {
                limit,
                usage: usage.clone(),
            }));
        }

        keys.sort_by_key(|TopKey { usage, .. }| Reverse((usage.certain_units(), usage.units)));
        keys.truncate(query.keys_max);
        keys
    }

    /// The heaviest keys of this replica, for the others.
    pub fn top_lists(&self, spans: &[UsageSpan], now: Micros) -> TopLists {
        let limits = self.metrics().iter().take(self.config.limits.len());
        let sketches = limits.filter_map(|metrics| Some((metrics.name(), metrics.keys()?)));
        let mut lists = TopLists::default();
        for (name, sketch) in sketches {
            for kind in [UsageKind::Denied, UsageKind::Admitted] {
                for span in spans {
                    lists.push(name, kind, *span, &sketch.top(kind, *span, now));
                }
            }
        }
        lists
    }
}
