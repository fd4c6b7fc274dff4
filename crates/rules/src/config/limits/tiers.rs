//! `tiers`: named sets of numbers, which limits refer to with `tier`.

use crate::config::field::ConfigField;
use crate::config::field_map::FieldMap;
use crate::config::names::TIER;
use crate::config::values::{INTEGER, RATE};

/// The maximum number of tiers. Every limit with a `tier` has one quota per tier, so this bounds
/// their product.
const TIERS_MAX: usize = 100;
const NAME_MAX: usize = 128;

/// A tier. Its numbers are read again for every limit that uses them.
pub(super) struct Tier<'a> {
    pub(super) name: &'a str,
    /// The line of its name.
    pub(super) line: usize,
    pub(super) numbers: FieldMap<'a>,
}

/// Reads the section `tiers`. The tiers are in file order.
pub(super) fn read<'a>(field: &ConfigField<'a>) -> Option<Vec<Tier<'a>>> {
    let mapping = FieldMap::with_free_keys(
        field,
        "expected a mapping, such as { free: { capacity: 100, refill_rate: 10/s } }",
    )?;
    field.at_most(TIERS_MAX, mapping.len(), "tiers")?;

    let tiers = mapping.entries().filter_map(|(entry, field)| {
        let name = entry.key.text.as_str();
        if name.is_empty() || name.len() > NAME_MAX {
            let found = name.len();
            mapping.error_at_key(
                entry,
                format_args!("a tier name must be 1 to {NAME_MAX} bytes long, found {found}"),
            );
        }

        let numbers = FieldMap::new(&field, TIER)?;
        check_numbers(&numbers);
        Some(Tier {
            name,
            line: entry.position.line,
            numbers,
        })
    });
    Some(tiers.collect())
}

/// Reports invalid numbers even if no limit uses the tier.
fn check_numbers(numbers: &FieldMap<'_>) {
    if numbers.len() == 0 {
        let field = &numbers.field;
        field.error("the tier is empty; expected capacity and refill_rate, or limit");
    }
    numbers.value("capacity", &INTEGER);
    numbers.value("limit", &INTEGER);
    numbers.value("refill_rate", &RATE);
}
