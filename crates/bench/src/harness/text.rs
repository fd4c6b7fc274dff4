//! Numbers and tables as text, formatted the same way in every report.

use std::fmt;

use clap::ValueEnum;

/// A table with a title.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    title: String,
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(
        title: impl Into<String>,
        heads: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            title: title.into(),
            lines: vec![heads.into_iter().map(str::to_owned).collect()],
        }
    }

    /// The same table with a line for each of these items.
    pub(crate) fn with_lines<T>(
        mut self,
        items: impl IntoIterator<Item = T>,
        line: impl Fn(T) -> Vec<String>,
    ) -> Self {
        self.lines.extend(items.into_iter().map(line));
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}\n", self.title)?;
        write_lines(out, &self.lines)
    }
}

/// Writes columns as wide as their widest cell, the first one left-aligned, all others
/// right-aligned.
pub(crate) fn write_lines(out: &mut fmt::Formatter<'_>, lines: &[Vec<String>]) -> fmt::Result {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(String::len)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            if column == 0 {
                write!(out, "{cell:<width$}")?;
            } else {
                write!(out, "  {cell:>width$}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A value as text, or a dash.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A count with its noun, in the singular or plural.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!(
        "{} {what}{}",
        grouped(count),
        if count == 1 { "" } else { "s" }
    )
}

/// The word for a value on the command line.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// A number with a comma between thousands.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate rounded to a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is neither huge nor negative"
)]
pub(crate) fn whole(rate: f64) -> usize {
    rate.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(counted(1, "key"), "1 key");
        assert_eq!(counted(100_000, "key"), "100,000 keys");
        assert_eq!(
            [7, 999, 1_000, 1_234_567].map(grouped),
            ["7", "999", "1,000", "1,234,567"]
        );
    }
}
