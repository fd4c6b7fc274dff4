//! Looks up rules by the limit's name.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;

use ahash::RandomState;

use super::error::Error;
use crate::limit::{LimitError, Rule};

/// Up to this many rules, a linear search is faster than hashing the name.
const LINEAR_SEARCH_MAX: usize = 8;
/// The most limit names that an error message lists.
const SHOWN_NAMES_MAX: usize = 8;

/// The rules of a limiter by name, in the order of the limits.
#[derive(Default)]
pub struct Rules {
    list: Vec<NamedRule>,
    /// The index in `list` of each name.
    positions: HashMap<Box<str>, usize, RandomState>,
}

/// Shows the names only.
impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.positions.keys()).finish()
    }
}

/// A rule with the signature of its name.
struct NamedRule {
    /// See [`signature`].
    signature: u128,
    rule: Rule,
}

impl NamedRule {
    #[inline]
    fn has_name(&self, name: &str, signature: u128) -> bool {
        let is_short = name.len() <= size_of::<u128>();
        let own_name = self.rule.name_bytes();
        self.signature == signature
            && own_name.len() == name.len()
            && (is_short || own_name == name.as_bytes())
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
    /// Fails if two rules have the same name.
    pub(super) fn new(
        rules: impl IntoIterator<Item = Rule>,
        replicas: NonZeroU32,
    ) -> Result<Self, Error> {
        let mut table = Self::default();

        for rule in rules {
            let name = rule.name();
            if table.positions.contains_key(name.as_str()) {
                let name = name.to_string();
                return Err(Error::Limit {
                    limit: name.clone(),
                    source: LimitError::DuplicateName { name },
                });
            }

            table
                .positions
                .insert(name.as_str().into(), table.list.len());
            table.list.push(NamedRule {
                signature: signature(name),
                rule: rule.with_replicas(replicas),
            });
        }

        Ok(table)
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Rule> {
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

    /// The error for a name that no limit has.
    #[cold]
    pub(super) fn unknown(&self, name: &str) -> Error {
        let mut names: Vec<&str> = self.positions.keys().map(|name| &**name).collect();
        names.sort_unstable();

        let hidden = names.len().saturating_sub(SHOWN_NAMES_MAX);
        names.truncate(SHOWN_NAMES_MAX);
        let shown = names.join(", ");
        let known = match (shown.is_empty(), hidden) {
            (true, _) => "none".to_owned(),
            (false, 0) => shown,
            (false, _) => format!("{shown} and {hidden} more"),
        };

        Error::UnknownLimit {
            limit: name.chars().take(80).collect(),
            known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use std::time::Duration;

    fn rules(names: impl Iterator<Item = String>) -> Rules {
        let limit = |name| Limit::fixed_window(name, 1, Duration::from_secs(1));
        let rules = names.map(|name| limit(name).validate().expect("a valid limit"));
        Rules::new(rules, NonZeroU32::MIN).expect("different names")
    }

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
            let rules = rules([pair[0].to_owned()].into_iter());
            assert_eq!(rules.get(pair[1]).is_some(), pair[0] == pair[1], "{pair:?}");
        }
        assert!(Rules::default().get("").is_none());
    }

    #[test]
    fn all_names_are_found_by_both_kinds_of_search() {
        for count in [1, LINEAR_SEARCH_MAX, LINEAR_SEARCH_MAX + 1, 200] {
            let rules = rules((0..count).map(|at| format!("limit-{at}")));
            let found = |at: usize| rules.get(&format!("limit-{at}"));
            assert!(
                (0..count).all(|at| found(at).is_some()) && found(count).is_none(),
                "{count} limits"
            );
        }
    }
}
