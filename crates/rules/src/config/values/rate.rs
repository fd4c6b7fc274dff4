//! Rates such as `10/s`, `6/minute`, `1/10s` or `5 per minute`.

use std::time::Duration;

use tollgate::Rate;

use super::duration::{duration, unit_micros};
use super::{ValueError, digits};

pub(in crate::config) const RATE: &str =
    "expected a number per period, such as 10/s, 6/minute or 1/10s";
const FRACTION: &str = "expected whole numbers, such as 3/2s for 1.5/s";

/// Parses a number of units per period.
pub(in crate::config) fn rate(text: &str) -> Result<Rate, ValueError> {
    let Some((amount, period)) = text.split_once('/').or_else(|| text.split_once(" per ")) else {
        let suggestion = digits(text)
            .map(|amount| format!("the period is missing; write {amount}/s or {amount}/m"));
        return Err(ValueError {
            reason: RATE,
            suggestion,
        });
    };

    let (amount, period) = (amount.trim_end(), period.trim_start());
    if amount.contains('.') && amount.parse::<f64>().is_ok() {
        return Err(ValueError::new(FRACTION));
    }

    let amount = digits(amount).ok_or(ValueError::new(RATE))?;
    let period = match unit_micros(period) {
        Some(unit) => Duration::from_micros(unit),
        None => duration(period).map_err(|_| ValueError::new(RATE))?,
    };
    Ok(Rate::new(amount, period))
}
