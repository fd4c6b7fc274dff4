//! `key`: the attributes that a limit counts by.

use tollgate_subject::Case;

use crate::config::field::{ConfigField, collect_all};
use crate::config::values::{ValueError, ValueKind};
use crate::key_attribute::KeyAttribute;
use crate::limit::Recipe;

pub(super) const KEY: &str =
    "expected a list of attributes, such as [client_ip], or [] for one counter for all requests";
const ATTRIBUTE: ValueKind<KeyAttribute> = ValueKind::new(
    "attribute",
    "expected an attribute, such as client_ip, header:x-api-key or lower(email)",
    |text| text.parse().map_err(ValueError::message),
);
const PARTS_MAX: usize = 16;
const ALTERNATIVES_MAX: usize = 16;

/// Reads the key. `case` is for paths, which must not count apart what one condition matches.
pub(super) fn read(field: &ConfigField<'_>, case: Case) -> Option<Recipe> {
    // A single attribute without brackets is a common mistake, so the error shows the fix.
    if field.scalar().is_some() && !field.is_null() && !field.is_private() {
        let fix = format_args!("expected a list; write [{}]", field.quoted());
        return field.invalid("value", fix);
    }

    let items = field.items(KEY)?;
    field.at_most(PARTS_MAX, items.len(), "key parts")?;
    Some(Recipe {
        parts: collect_all(items.iter().map(|item| read_part(item, case)))?,
    })
}

/// Reads one part of the key: an attribute, or alternatives such as `header:x-api-key | client_ip`.
fn read_part(field: &ConfigField<'_>, case: Case) -> Option<Vec<KeyAttribute>> {
    let text = field.string(ATTRIBUTE.noun, ATTRIBUTE.expected)?;
    if text.split('|').count() > ALTERNATIVES_MAX {
        return field.fail(format_args!(
            "too many alternatives: at most {ALTERNATIVES_MAX} are allowed"
        ));
    }

    let attribute = |name: &str| {
        let attribute = field.parse(name.trim(), &ATTRIBUTE)?;
        Some(match case {
            Case::Sensitive => attribute,
            Case::Insensitive => attribute.with_folded_path(),
        })
    };
    collect_all(text.split('|').map(attribute))
}
