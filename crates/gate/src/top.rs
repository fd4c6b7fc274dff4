//! The keys that use the limits of the active configuration most.

use std::cmp::Reverse;

use tollgate::Micros;

use super::active::ActiveConfig;
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
    /// The heaviest keys on this replica, in descending order. Keys that the active key recipes
    /// cannot display are left out.
    pub fn top_keys(&self, query: TopQuery, now: Micros) -> Vec<TopKey> {
        let limits = self.metrics().iter().take(self.config.limits.len());
        let wanted = limits
            .enumerate()
            .filter(|(index, _)| query.limit.is_none_or(|only| only == *index));

        let mut keys = Vec::new();
        for (limit, metrics) in wanted {
            let Some(sketch) = metrics.keys() else {
                continue;
            };
            let summary = sketch.top(query.kind, query.span, now);
            let shown = summary
                .rows()
                .filter(|row| self.selector.display_key(limit, &row.key).is_some());
            keys.extend(shown.take(query.keys_max).map(|usage| TopKey {
                limit,
                usage: usage.clone(),
            }));
        }
        sort_top_keys(&mut keys, query.keys_max);
        keys
    }
}

/// Puts the heaviest keys first: by the units that are certain, then by the upper bound. Drops
/// those beyond `keys_max`.
pub fn sort_top_keys(keys: &mut Vec<TopKey>, keys_max: usize) {
    keys.sort_by_key(|TopKey { usage, .. }| Reverse((usage.certain_units(), usage.units)));
    keys.truncate(keys_max);
}
