//! `tiers`: named sets of numbers, which limits refer to with `tier`.

use super::diagnostic::SourcePosition;
use super::field::{ConfigField, Expectation};
use super::field_map::FieldMap;
use super::names::TIER;
use super::values;
use super::yaml::YamlEntry;

/// The maximum number of tiers. Every limit with a `tier` has one quota per tier, so this bounds
/// their product.
const TIERS_MAX: usize = 100;
const NAME_MAX: usize = 128;

const TIERS: Expectation<'static> = Expectation::value(
    "expected a mapping, such as { free: { capacity: 100, refill_rate: 10/s } }",
);
pub(super) const RATE: Expectation<'static> = Expectation::new("rate", values::RATE);

/// The tiers, in file order.
pub(super) type TierList<'a> = Vec<Tier<'a>>;

/// A tier. Its numbers are read again for every limit that uses them.
pub(super) struct Tier<'a> {
    pub(super) name: &'a str,
    pub(super) position: SourcePosition,
    pub(super) numbers: FieldMap<'a>,
}

/// Reads the section `tiers`.
pub(super) fn read<'a>(field: &ConfigField<'a>) -> Option<TierList<'a>> {
    let mapping = field.free_mapping(TIERS)?;
    if mapping.len() > TIERS_MAX {
        let found = mapping.len();
        field.error(format_args!(
            "too many tiers: found {found}, at most {TIERS_MAX} are allowed"
        ));
        return None;
    }

    let tier = |(entry, field): (&'a YamlEntry, ConfigField<'a>)| {
        let name = entry.key.text.as_str();
        if name.is_empty() || name.len() > NAME_MAX {
            let found = name.len();
            mapping.error_at_key(
                entry,
                format_args!("a tier name must be 1 to {NAME_MAX} bytes long, found {found}"),
            );
        }

        let numbers = field.mapping(TIER)?;
        check_numbers(&field, &numbers);
        Some(Tier {
            name,
            position: entry.position,
            numbers,
        })
    };
    Some(mapping.entries().filter_map(tier).collect())
}

/// Reports invalid numbers even if no limit uses the tier.
fn check_numbers(field: &ConfigField<'_>, numbers: &FieldMap<'_>) {
    if numbers.len() == 0 {
        field.error("the tier is empty; expected capacity and refill_rate, or limit");
    }
    numbers.read("capacity", ConfigField::integer);
    numbers.read("limit", ConfigField::integer);
    numbers.read("refill_rate", |field| field.read_with(values::rate, RATE));
}
