//! Looks up rules by the limit's name.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ahash::RandomState;

use crate::limit::{Limit, LimitError, Rule};

/// Up to this many rules, a linear search is faster than hashing the name.
const LINEAR_SEARCH_MAX: usize = 8;

/// The rules of a limiter by name, in the order of the limits.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Vec<NamedRule>,
    /// The index in `list` of each name.
    positions: HashMap<Box<str>, usize, RandomState>,
}

/// A rule, or why the limit is invalid, with the limit's name.
#[derive(Debug)]
struct NamedRule {
    name: Box<str>,
    /// See [`signature`].
    signature: u128,
    rule: Result<Rule, LimitError>,
}

impl NamedRule {
    #[inline]
    fn has_name(&self, name: &str, signature: u128) -> bool {
        let is_short = name.len() <= size_of::<u128>();
        self.signature == signature
            && self.name.len() == name.len()
            && (is_short || *self.name == *name)
    }
}

/// Sixteen bytes of a name, to compare short names in one step. Different names of the same length
/// have different signatures if they have at most sixteen bytes, and often otherwise.
#[inline]
fn signature(name: &str) -> u128 {
    let name = name.as_bytes();
    if let Some(sixteen) = name.first_chunk() {
        return u128::from_le_bytes(*sixteen);
    }

    // 8 to 15 bytes: the first eight and the last eight, which overlap.
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u128::from(u64::from_le_bytes(*first)) << 64
            | u128::from(u64::from_le_bytes(*last));
    }

    // 4 to 7 bytes: the first four and the last four.
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u128::from(u32::from_le_bytes(*first)) << 32
            | u128::from(u32::from_le_bytes(*last));
    }

    name.iter()
        .fold(0, |bytes, byte| bytes << 8 | u128::from(*byte))
}

impl Rules {
    /// Creates the rules of these limits. An invalid limit, or one with a duplicate name, is kept
    /// as its error.
    pub(super) fn new(limits: Vec<Limit>, replicas: NonZeroU32) -> Self {
        let mut rules = Self::default();

        for limit in limits {
            let name = limit.name();
            if let Some(position) = rules.positions.get(name) {
                rules.list[*position].rule = Err(LimitError::DuplicateName {
                    name: name.to_owned(),
                });
            } else {
                rules.positions.insert(name.into(), rules.list.len());
                rules.list.push(NamedRule {
                    name: name.into(),
                    signature: signature(name),
                    rule: limit.rule().map(|rule| rule.with_replicas(replicas)),
                });
            }
        }

        rules
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Result<Rule, LimitError>> {
        let entry = if self.list.len() <= LINEAR_SEARCH_MAX {
            let signature = signature(name);
            self.list.iter().find(|rule| rule.has_name(name, signature))
        } else {
            self.positions
                .get(name)
                .map(|position| &self.list[*position])
        };
        entry.map(|entry| &entry.rule)
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(|entry| &*entry.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_of_every_length_are_distinguished() {
        let names = [
            "a", "b", "ab", "cb", "abc", "aac", "abcd", "abce", "abcde", "abcdd", "abcdefg",
            "abcdeeg",
        ];
        let longer = [
            "abcdefgh",
            "abcdefgi",
            "abcdefgha",
            "abcdefghb",
            "abcdefghijklmno",
            "abcdefghijklmnn",
        ];
        let longest = [
            "abcdefghijklmnop",
            "abcdefghijklmnoq",
            "abcdefghijklmnopq",
            "abcdefghijklmnopr",
        ];
        let all: Vec<&str> = names.into_iter().chain(longer).chain(longest).collect();

        for pair in all
            .iter()
            .flat_map(|one| all.iter().map(move |other| [*one, *other]))
        {
            let limit = |name: &str| Limit::fixed_window(name, 1, Duration::from_secs(1));
            let rules = Rules::new(vec![limit(pair[0])], NonZeroU32::MIN);
            assert_eq!(rules.get(pair[1]).is_some(), pair[0] == pair[1], "{pair:?}");
        }
        assert!(Rules::new(Vec::new(), NonZeroU32::MIN).get("").is_none());
    }

    #[test]
    fn all_names_are_found_by_both_kinds_of_search() {
        for count in [1, LINEAR_SEARCH_MAX, LINEAR_SEARCH_MAX + 1, 200] {
            let limit =
                |at: usize| Limit::fixed_window(format!("limit-{at}"), 1, Duration::from_secs(1));
            let rules = Rules::new((0..count).map(limit).collect(), NonZeroU32::MIN);
            let found = |at: usize| rules.get(&format!("limit-{at}"));
            assert!(
                (0..count).all(|at| found(at).is_some()) && found(count).is_none(),
                "{count} limits"
            );
        }
    }
}
