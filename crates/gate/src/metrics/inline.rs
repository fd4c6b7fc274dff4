//! The metrics of limits that requests bring along. Their names come from callers, so only the first
//! ones get series of their own.

use std::sync::{Arc, OnceLock};

use super::limit::LimitMetrics;

/// The most names with series of their own.
const NAMES_MAX: usize = 100;
/// The name of the series that counts all further names.
const OTHER: &str = "other";

/// The metrics of limits that requests bring along, by slot. The first slot is for all names that
/// have no slot of their own.
#[derive(Debug)]
pub struct InlineMetrics {
    slots: [OnceLock<Arc<LimitMetrics>>; NAMES_MAX + 1],
}

impl Default for InlineMetrics {
    fn default() -> Self {
        Self {
            slots: [const { OnceLock::new() }; NAMES_MAX + 1],
        }
    }
}

impl InlineMetrics {
    /// The slot of a name, which is taken if the name is new and one is free.
    pub fn slot(&self, name: &str) -> usize {
        let has_name = |slot: usize, name: &str| {
            let metrics = self.slots[slot].get_or_init(|| Arc::new(new(slot, name)));
            **metrics.name() == *name
        };
        let own = (1..=NAMES_MAX).find(|slot| name != OTHER && has_name(*slot, name));
        own.unwrap_or_else(|| {
            has_name(0, OTHER);
            0
        })
    }

    /// The metrics at a slot.
    pub fn get(&self, slot: usize) -> Option<&LimitMetrics> {
        self.slots.get(slot)?.get().map(|metrics| &**metrics)
    }

    /// All metrics so far.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<LimitMetrics>> {
        self.slots.iter().filter_map(OnceLock::get)
    }
}

/// Metrics with an id from the upper end: those of configured limits start from the lower end.
fn new(slot: usize, name: &str) -> LimitMetrics {
    let slot = u32::try_from(slot).unwrap_or(u32::MAX);
    LimitMetrics::new(u32::MAX - slot, name, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_have_slots_and_the_rest_share_one() {
        let metrics = InlineMetrics::default();
        assert_eq!(metrics.slot("other"), 0);
        for number in 1..=NAMES_MAX {
            assert_eq!(metrics.slot(&format!("name-{number}")), number);
        }
        assert_eq!(metrics.slot("one-too-many"), 0);
        assert_eq!(metrics.slot("name-7"), 7);

        assert_eq!(metrics.iter().count(), NAMES_MAX + 1);
        let name = |slot| metrics.get(slot).map(|limit| limit.name().to_string());
        assert_eq!(name(0).as_deref(), Some("other"));
        assert_eq!(name(7).as_deref(), Some("name-7"));
        assert_eq!(name(NAMES_MAX + 1), None);
    }
}
