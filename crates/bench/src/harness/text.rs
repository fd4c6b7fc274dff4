//! Numbers and tables as text, formatted the same way in every report.

use std::fmt;

use clap::ValueEnum;

use super::row::Row;

/// A table with a title. Its columns are as wide as their widest cell, the first one left-aligned,
/// all others right-aligned.
#[derive(Debug)]
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

    /// A table with a line for each row. A column has a head and a template for [`Row::text`].
    pub(crate) fn from_rows<'r>(
        title: impl Into<String>,
        rows: impl Iterator<Item = &'r Row>,
        columns: &[(&str, &str)],
    ) -> Self {
        let table = Self::new(title, columns.iter().map(|(head, _)| *head));
        table.with_lines(rows, |row| {
            let cells = columns.iter().map(|(_, template)| row.text(template));
            cells.collect()
        })
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
        let mut widths = Vec::new();
        for line in &self.lines {
            widths.resize(line.len(), 0);
            let cells = widths.iter_mut().zip(line);
            cells.for_each(|(width, cell)| *width = cell.len().max(*width));
        }

        for line in &self.lines {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(out, "{cell:<width$}")?,
                    _ => write!(out, "  {cell:>width$}")?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// A value as text, or a dash.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A value with this many decimal places, or a dash if it is not a number.
pub(crate) fn number(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    format!("{value:.digits$}")
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
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A count or a rate rounded to a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is counted here is neither huge nor negative"
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
