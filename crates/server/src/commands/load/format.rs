//! Formats durations, units and sparklines.

/// Microseconds with three significant digits, in milliseconds or seconds.
#[expect(clippy::cast_precision_loss, reason = "the value is only displayed")]
pub(super) fn millis(micros: u64) -> String {
    let (value, unit) = if micros < 1_000_000 {
        (micros as f64 / 1e3, "ms")
    } else {
        (micros as f64 / 1e6, "s")
    };

    match value {
        value if value < 10.0 => format!("{value:.2}{unit}"),
        value if value < 100.0 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

/// A number of units with up to two decimals, without trailing zeros.
pub(super) fn units(units: f64) -> String {
    let text = format!("{units:.2}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// A curve of eight heights, relative to the largest value. Zero is a space.
pub(super) fn sparkline(values: &[u64]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = u128::from(values.iter().copied().max().unwrap_or_default().max(1));
    let height =
        |value: &u64| usize::try_from((u128::from(*value) * 8).div_ceil(largest)).unwrap_or(8);
    values
        .iter()
        .map(|value| HEIGHTS[height(value).min(8)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let texts = [0, 7, 1_234, 12_345, 123_456, 1_234_567].map(millis);
        assert_eq!(
            texts,
            ["0.00ms", "0.01ms", "1.23ms", "12.3ms", "123ms", "1.23s"]
        );
        assert_eq!(
            [0.0, -0.0, -0.001, 99.5, -3.333, 100.0].map(units),
            ["0", "0", "0", "99.5", "-3.33", "100"]
        );
    }

    #[test]
    fn a_curve_shows_its_shape() {
        assert_eq!(sparkline(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(sparkline(&[u64::MAX]), "█");
        assert_eq!(sparkline(&[]), "");
    }
}
