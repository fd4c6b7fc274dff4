//! Rates: `10/s`, `6/minute`, `1/10s`, `5 per minute`.

use std::time::Duration;

use tollgate::Rate;

use super::length::{duration, unit_micros};
use super::{Wrong, digits};

const RATE: &str = "write a rate as a number per time, such as 10/s, 6/minute or 1/10s";
const FRACTION: &str = "write a rate of whole numbers, such as 3/2s for 1.5/s";

/// So many per unit, or per length of time.
pub(in crate::config) fn rate(text: &str) -> Result<Rate, Wrong> {
    let Some((amount, period)) = text.split_once('/').or_else(|| text.split_once(" per ")) else {
        let bare = digits(text).map(|amount| format!("a time, as in {amount}/s or {amount}/m"));
        return Err(Wrong {
            right: RATE,
            meant: bare,
        });
    };
    let (amount, period) = (amount.trim_end(), period.trim_start());
    if amount.contains('.') && amount.parse::<f64>().is_ok() {
        return Err(Wrong::new(FRACTION));
    }
    let amount = digits(amount).ok_or(Wrong::new(RATE))?;
    let period = match unit_micros(period) {
        Some(unit) => Duration::from_micros(unit),
        None => duration(period).map_err(|_| Wrong::new(RATE))?,
    };
    Ok(Rate::new(amount, period))
}
