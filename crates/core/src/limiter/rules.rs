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
    list: Vec<(Box<str>, Result<Rule, LimitError>)>,
    positions: HashMap<Box<str>, usize, RandomState>,
}

impl Rules {
    /// What is wrong with a limit, or with its name standing twice, is kept in its place.
    pub(super) fn new(limits: Vec<Limit>, replicas: NonZeroU32) -> Self {
        let mut rules = Self::default();
        for limit in limits {
            let name = limit.name();
            if let Some(position) = rules.positions.get(name) {
                rules.list[*position].1 = Err(LimitError::DuplicateName { name: name.to_owned() });
            } else {
                rules.positions.insert(name.into(), rules.list.len());
                rules.list.push((name.into(), limit.rule().map(|rule| rule.shared_by(replicas))));
            }
        }
        rules
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Result<Rule, LimitError>> {
        let found = if self.list.len() <= FEW {
            self.list.iter().find(|(other, _)| **other == *name)
        } else {
            self.positions.get(name).map(|position| &self.list[*position])
        };
        found.map(|(_, rule)| rule)
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(|(name, _)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn few_and_many_names_are_all_found() {
        for count in [1, FEW, FEW + 1, 200] {
            let limit = |at: usize| Limit::fixed_window(format!("limit-{at}"), 1, Duration::from_secs(1));
            let rules = Rules::new((0..count).map(limit).collect(), NonZeroU32::MIN);
            let found = |at: usize| rules.get(&format!("limit-{at}"));
            assert!((0..count).all(|at| found(at).is_some()) && found(count).is_none(), "{count} limits");
        }
    }
}
