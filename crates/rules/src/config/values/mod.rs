//! The kinds of scalar values, and how their texts are parsed. Knows nothing of files and fields.

mod duration;
mod kind;
mod number;
mod rate;
#[cfg(test)]
mod tests;

pub use duration::parse_duration;
pub(super) use duration::{CALENDAR, DURATION};
pub(super) use kind::{ValueError, ValueKind, has_only, is_file, text_if, without_http};
pub(super) use number::{INTEGER, RATIO, SIZE, WEIGHT};
pub(super) use rate::RATE;
