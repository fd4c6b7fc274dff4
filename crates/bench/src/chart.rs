//! A chart with grouped bars on a logarithmic scale, written as SVG. It is short enough to write by
//! hand, so it needs no dependency.

use std::fmt;

/// A bar chart. Values are positive; a missing value leaves a gap.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The unit of the numbers on the vertical axis.
    pub(crate) unit: &'static str,
    pub(crate) groups: Vec<Group>,
    pub(crate) series: Vec<String>,
}

/// Bars that belong together, one for each series.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) sublabel: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// The colours can also be distinguished with the most common kinds of colour blindness.
const COLOURS: [&str; 8] = [
    "#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#f0c27b", "#999999", "#cc79a7", "#009e73",
];
const WIDTH_MIN: u32 = 960;
const LEFT: u32 = 76;
const RIGHT: u32 = 16;
const TOP: u32 = 92;
const HEIGHT: u32 = 360;
const FOOT: u32 = 52;
const BAR: u32 = 14;
const GAP: u32 = 22;

impl Chart {
    fn width(&self) -> u32 {
        LEFT + RIGHT + count(&self.groups) * self.group_width()
    }

    fn legend_width(&self) -> u32 {
        2 * RIGHT
            + self
                .series
                .iter()
                .map(|series| key_width(series))
                .sum::<u32>()
    }

    fn group_width(&self) -> u32 {
        count(&self.series) * BAR + GAP
    }

    /// The logarithms that bound all values, with room above for the label of the highest bar.
    fn range(&self) -> (f64, f64) {
        let values = || {
            self.groups
                .iter()
                .flat_map(|group| group.values.iter().copied().flatten())
        };
        let low = values().fold(f64::MAX, f64::min).max(1.0).log10().floor();
        let high = values().fold(10.0, f64::max).log10() + 0.25;
        (low.min(high.floor() - 1.0), high)
    }

    /// The distance of a value from the top edge.
    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.range();
        let share = (value.log10() - low) / (high - low);
        f64::from(TOP) + f64::from(HEIGHT) * (1.0 - share.clamp(0.0, 1.0))
    }

    fn heading(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            r#"<text x="16" y="26" font-size="17" font-weight="bold">{}</text>"#,
            EscapedText(&self.title)
        )?;
        writeln!(
            out,
            r##"<text x="16" y="45" fill="#555">{}</text>"##,
            EscapedText(&self.subtitle)
        )?;
        let mut x = 16;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            writeln!(
                out,
                r#"<rect x="{x}" y="58" width="12" height="12" fill="{colour}"/>"#
            )?;
            writeln!(
                out,
                r#"<text x="{}" y="68">{}</text>"#,
                x + 17,
                EscapedText(series)
            )?;
            x += key_width(series);
        }
        Ok(())
    }

    fn grid(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.range();
        let right = self.width() - RIGHT;
        for decade in whole(low)..=whole(high) {
            let value = 10_f64.powi(decade);
            let y = self.y(value);
            writeln!(
                out,
                r##"<line x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}" stroke="#ddd"/>"##
            )?;
            let (x, y) = (LEFT - 6, y + 4.0);
            writeln!(
                out,
                r##"<text x="{x}" y="{y:.1}" text-anchor="end" fill="#555">{value:.0} {}</text>"##,
                self.unit
            )?;
        }
        Ok(())
    }

    fn group(&self, out: &mut fmt::Formatter<'_>, index: u32, group: &Group) -> fmt::Result {
        let left = LEFT + index * self.group_width() + GAP / 2;
        let bottom = f64::from(TOP + HEIGHT);
        for (bar, (value, colour)) in (0..).zip(group.values.iter().zip(COLOURS)) {
            let Some(value) = *value else { continue };
            let (x, y) = (left + bar * BAR, self.y(value));
            let (width, height) = (BAR - 2, bottom - y);
            writeln!(
                out,
                r#"<rect x="{x}" y="{y:.1}" width="{width}" height="{height:.1}" fill="{colour}"/>"#
            )?;
            let (x, y) = (x + 10, y - 4.0);
            writeln!(
                out,
                concat!(
                    r#"<text transform="translate({x} {y:.1}) rotate(-90)" font-size="10">"#,
                    "{value:.0}</text>"
                ),
                x = x,
                y = y,
                value = value
            )?;
        }
        let middle = left + (self.group_width() - GAP) / 2;
        let (first, second) = (TOP + HEIGHT + 20, TOP + HEIGHT + 36);
        let (label, sublabel) = (EscapedText(&group.label), EscapedText(&group.sublabel));
        writeln!(
            out,
            concat!(
                r#"<text x="{middle}" y="{first}" text-anchor="middle" "#,
                r#"font-weight="bold">{label}</text>"#
            ),
            middle = middle,
            first = first,
            label = label
        )?;
        writeln!(
            out,
            concat!(
                r#"<text x="{middle}" y="{second}" text-anchor="middle" "#,
                r##"fill="#555">{sublabel}</text>"##
            ),
            middle = middle,
            second = second,
            sublabel = sublabel
        )
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.width().max(self.legend_width()).max(WIDTH_MIN);
        let height = TOP + HEIGHT + FOOT;
        writeln!(
            out,
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" "#,
                r#"viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">"#
            ),
            width = width,
            height = height
        )?;
        writeln!(
            out,
            r##"<rect width="{width}" height="{height}" fill="#fff"/>"##
        )?;
        self.heading(out)?;
        self.grid(out)?;
        for (index, group) in (0..).zip(&self.groups) {
            self.group(out, index, group)?;
        }
        writeln!(out, "</svg>")
    }
}

/// Text with the characters escaped that have a meaning in XML.
pub(crate) struct EscapedText<'a>(pub(crate) &'a str);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '&' => out.write_str("&amp;"),
            '<' => out.write_str("&lt;"),
            '>' => out.write_str("&gt;"),
            _ => write!(out, "{letter}"),
        })
    }
}

/// The width of a series in the legend.
fn key_width(series: &str) -> u32 {
    36 + count(series.as_bytes()) * 7
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the logarithm of a double is below 400"
)]
fn whole(decade: f64) -> i32 {
    decade as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_values_are_higher_and_missing_ones_leave_a_gap() {
        let group = |values| Group {
            label: "a<b".to_owned(),
            sublabel: String::new(),
            values,
        };
        let chart = Chart {
            title: "t".to_owned(),
            subtitle: "s".to_owned(),
            unit: "ns",
            groups: vec![
                group(vec![Some(20.0), None]),
                group(vec![Some(900.0), Some(90.0)]),
            ],
            series: vec!["x".to_owned(), "y".to_owned()],
        };
        let (low, high) = chart.range();
        assert!(
            low <= 20_f64.log10() && 900_f64.log10() < high && high < 4.0,
            "{low} {high}"
        );
        assert!(chart.y(900.0) < chart.y(90.0));
        let svg = chart.to_string();
        assert!(svg.contains("a&lt;b"));
        // The background, two keys of the legend and three bars.
        assert_eq!(svg.matches("<rect").count(), 6);
    }
}
