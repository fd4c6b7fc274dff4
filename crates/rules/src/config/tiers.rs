//! `tiers`: numbers by name, for limits that take them from there.

use super::fault::Place;
use super::field::Field;
use super::table::Table;
use super::values;
use super::words::TIER;

/// Every limit with tiers has the numbers of each, so this bounds their product.
const TIERS_MAX: usize = 100;
const NAME_MAX: usize = 128;

/// The tiers of a file, in its order.
pub(super) type TierList<'a> = Vec<Tier<'a>>;

/// A tier. Its numbers are read again for every limit that uses them.
pub(super) struct Tier<'a> {
    pub(super) name: &'a str,
    pub(super) at: Place,
    pub(super) numbers: Table<'a>,
}

/// What `tiers` says.
pub(super) fn read<'a>(field: &Field<'a>) -> Option<TierList<'a>> {
    let table = field
        .open_table("write a mapping, such as { free: { capacity: 100, refill_rate: 10/s } }")?;
    if table.len() > TIERS_MAX {
        field.fault(format_args!(
            "found {} tiers; at most {TIERS_MAX} are possible",
            table.len()
        ));
        return None;
    }
    let tier = |(entry, field): (&'a super::tree::Entry, Field<'a>)| {
        let name = entry.key.written.as_str();
        if name.is_empty() || name.len() > NAME_MAX {
            table.fault_at_key(
                entry,
                format_args!(
                    "a tier's name has {} bytes; it must have 1 to {NAME_MAX}",
                    name.len()
                ),
            );
        }
        let numbers = field.table(TIER)?;
        check(&field, &numbers);
        Some(Tier {
            name,
            at: entry.at,
            numbers,
        })
    };
    Some(table.entries().filter_map(tier).collect())
}

/// Numbers are told wrong even where no limit uses them.
fn check(field: &Field<'_>, numbers: &Table<'_>) {
    if numbers.len() == 0 {
        field.fault("found a tier without numbers; give it capacity and refill_rate, or limit");
    }
    numbers.read("capacity", Field::whole);
    numbers.read("limit", Field::whole);
    numbers.read("refill_rate", |field| field.value(values::rate, RATE));
}

pub(super) const RATE: &str = "write a rate as a number per time, such as 10/s, 6/minute or 1/10s";
