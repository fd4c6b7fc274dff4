//! Limits by name.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ahash::RandomState;

use crate::limit::{Limit, LimitError, Rule};

/// Up to so many names are found faster by looking at each of them than by hashing.
const FEW: usize = 8;

/// The rules of a limiter, each with its name, in the order given.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Vec<Named>,
    positions: HashMap<Box<str>, usize, RandomState>,
}

/// A rule under its name.
#[derive(Debug)]
struct Named {
    name: Box<str>,
    /// See [`head`].
    head: u128,
    rule: Result<Rule, LimitError>,
}

impl Named {
    #[inline]
    fn is(&self, name: &str, head: u128) -> bool {
        let is_short = name.len() <= size_of::<u128>();
        self.head == head && self.name.len() == name.len() && (is_short || *self.name == *name)
    }
}

/// Sixteen bytes that tell apart names of the same length up to sixteen, and many longer ones.
#[inline]
fn head(name: &str) -> u128 {
    let name = name.as_bytes();
    if let Some(sixteen) = name.first_chunk() {
        return u128::from_le_bytes(*sixteen);
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u128::from(u64::from_le_bytes(*first)) << 64
            | u128::from(u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return u128::from(u32::from_le_bytes(*first)) << 32
            | u128::from(u32::from_le_bytes(*last));
    }
    name.iter()
        .fold(0, |head, byte| head << 8 | u128::from(*byte))
}

impl Rules {
    /// What is wrong with a limit, or with its name standing twice, is kept in its place.
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
                let rule = limit.rule().map(|rule| rule.shared_by(replicas));
                rules.list.push(Named {
                    name: name.into(),
                    head: head(name),
                    rule,
                });
            }
        }
        rules
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Result<Rule, LimitError>> {
        let found = if self.list.len() <= FEW {
            let head = head(name);
            self.list.iter().find(|named| named.is(name, head))
        } else {
            self.positions
                .get(name)
                .map(|position| &self.list[*position])
        };
        found.map(|named| &named.rule)
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(|named| &*named.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_are_told_apart_at_every_length() {
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
    fn few_and_many_names_are_all_found() {
        for count in [1, FEW, FEW + 1, 200] {
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
