//! `key`: whom a limit counts.

use crate::attribute::Attribute;
use crate::config::field::{Field, every};
use crate::config::subjects::ATTRIBUTE;
use crate::config::tree::Value;
use crate::rule::Recipe;

pub(super) const RIGHT: &str =
    "write a list of attributes, such as [client_ip], or [] for one counter for everyone";
const PARTS_MAX: usize = 16;
const ALTERNATIVES_MAX: usize = 16;

pub(super) fn read(field: &Field<'_>) -> Option<Recipe> {
    if let Value::Text(text) = &field.node.value
        && !text.is_nothing()
        && !text.is_private()
    {
        field.wrong(format_args!("write a list: [{}]", text.shown()));
        return None;
    }
    let items = field.list(RIGHT)?;
    if items.len() > PARTS_MAX {
        field.fault(format_args!(
            "found {} parts; a key has at most {PARTS_MAX}",
            items.len()
        ));
        return None;
    }
    Some(Recipe {
        parts: every(items.iter().map(part))?,
    })
}

/// `header:x-api-key | client_ip`: the first that a request has.
fn part(field: &Field<'_>) -> Option<Vec<Attribute>> {
    let text = field.text(ATTRIBUTE)?;
    if text.split('|').count() > ALTERNATIVES_MAX {
        field.fault(format_args!(
            "found more than {ALTERNATIVES_MAX} alternatives; write fewer"
        ));
        return None;
    }
    let attribute = |name: &str| field.checked(name.trim().parse(), ATTRIBUTE);
    every(text.split('|').map(attribute))
}
