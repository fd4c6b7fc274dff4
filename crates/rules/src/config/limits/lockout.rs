//! `lockout`: after how many denials a key is locked, and for how long.

use std::time::Duration;

use tollgate::Lockout;
use tollgate::algorithm::{
    LOCKOUT_AFTER_MAX, LOCKOUT_FACTOR_MAX, LOCKOUT_MAX_DEFAULT, WINDOW_MAX, WINDOW_MIN,
};

use crate::config::field::ConfigField;
use crate::config::field_map::FieldMap;
use crate::config::names::LOCKOUT;

/// Reads the lockout of a limit. Every field is read before the first `?`, so that all errors are
/// reported.
pub(super) fn read(field: &ConfigField<'_>) -> Option<Lockout> {
    let mapping = FieldMap::new(field, LOCKOUT)?;
    let require_length = |name, expected| read_length(&mapping.require(name, expected)?);
    let after = mapping
        .require("after", "expected a number of denials, such as `after: 10`")
        .and_then(|field| field.integer_in(1..=LOCKOUT_AFTER_MAX.into()));
    let within = require_length("within", "expected a duration, such as `within: 10m`");
    let length = require_length("for", "expected a duration, such as `for: 15m`");
    let factor = mapping.integer("factor", 1..=LOCKOUT_FACTOR_MAX.into());
    let max = mapping.read("max", |field| read_max(field, length));

    let length = length?;
    let lockout = Lockout::new(after?, within?, length).ok()?;
    let max = max.unwrap_or_else(|| length.max(LOCKOUT_MAX_DEFAULT.into()));
    lockout.with_growth(factor.unwrap_or(1), max).ok()
}

/// Reads a duration of the range that windows have.
fn read_length(field: &ConfigField<'_>) -> Option<Duration> {
    field.duration_in(WINDOW_MIN.into()..=WINDOW_MAX.into())
}

/// Reads the longest lockout, which cannot be shorter than the first.
fn read_max(field: &ConfigField<'_>, length: Option<Duration>) -> Option<Duration> {
    let max = read_length(field)?;
    if length.is_none_or(|length| max >= length) {
        return Some(max);
    }
    field.invalid("max", "it is shorter than `for`; must be at least as long")
}
