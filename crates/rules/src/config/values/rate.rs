//! Rates such as `10/s`, `6/minute`, `1/10s` or `5 per minute`.

use std::time::Duration;

use tollgate::Rate;

use super::duration::{duration, unit_micros};
use super::kind::{ValueError, ValueKind};
use super::number::digits;

pub(crate) const RATE: ValueKind<Rate> = ValueKind::new(
    "rate",
    "expected a number per period, such as 10/s, 6/minute or 1/10s",
    |text| rate(text.trim()),
);
const FRACTION: &str = "expected whole numbers, such as 3/2s for 1.5/s";

/// Parses a number of units per period.
pub(super) fn rate(text: &str) -> Result<Rate, ValueError> {
    let Some((amount, period)) = text.split_once('/').or_else(|| text.split_once(" per ")) else {
        return Err(digits(text).map_or(ValueError::Unexpected, |amount| {
            ValueError::Suggestion(format!(
                "the period is missing; write {amount}/s or {amount}/m"
            ))
        }));
    };

    let (amount, period) = (amount.trim_end(), period.trim_start());
    if amount.contains('.') && amount.parse::<f64>().is_ok() {
        return Err(ValueError::Reason(FRACTION));
    }

    let period = unit_micros(period)
        .map(Duration::from_micros)
        .or_else(|| duration(period).ok());
    match (digits(amount), period) {
        (Some(amount), Some(period)) => Ok(Rate::new(amount, period)),
        _ => Err(ValueError::Unexpected),
    }
}
