//! Bar charts in an SVG picture: one, or several small ones for values that do not share a scale.
//! They are short enough to write by hand, so they need no dependency.
//!
//! The colours follow the viewer's preference for a dark scheme; without a preference the
//! background is white.

use std::fmt;

use super::report::distinct;
use super::row::{Row, float};
use super::text::whole;

/// A picture with several panels, in which a series has the same colour everywhere.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) panels: Vec<Panel>,
}

/// One bar chart of a picture.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// At most one bar for each label and series; a missing one leaves a gap.
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// The label of the group of bars that this one belongs to, in one or two lines.
    pub(crate) label: String,
    pub(crate) series: String,
    /// Not negative.
    pub(crate) value: f64,
}

/// The vertical scale of a panel: from zero to the first value or, by powers of ten, from the first
/// value to the second. Smaller values, such as zero, have no height.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear(f64),
    Logarithmic(f64, f64),
}

/// The colours can be distinguished on either background, also with the most common kinds of colour
/// blindness.
const COLOURS: [&str; 9] = [
    "#0072b2", "#009e73", "#e69f00", "#f0d49a", "#d55e00", "#999999", "#cc79a7", "#56b4e9",
    "#7f6000",
];
const STYLE: &str = concat!(
    "<style>.ground{fill:#fff}text{fill:#1a1a1a}text.faint{fill:#595959}",
    "@media (prefers-color-scheme:dark){.ground{fill:#14171c}text{fill:#eee}text.faint{fill:#aab}}",
    "</style>"
);
/// The width for the groups of a panel, unless their bars need more.
const ROOM: usize = 828;
const MARGIN: usize = 16;
const BAR: usize = 16;
const GAP: usize = 28;
const TOP: f64 = 84.0;
const PANEL_TITLE: f64 = 30.0;
/// The height of the bars, with several panels and with one.
const HEIGHT: f64 = 170.0;
const HEIGHT_ALONE: f64 = 360.0;
const FOOT: f64 = 52.0;
/// Values that differ by more than this factor are shown on a logarithmic scale.
const SPAN_MAX: f64 = 8.0;

/// What all panels of a picture share.
struct Layout<'a> {
    /// In the order of the first bar of each.
    series: Vec<&'a str>,
    bars_width: usize,
    group_width: usize,
    /// The height of the bars.
    height: f64,
    /// The width of the picture.
    width: usize,
}

impl<'a> Layout<'a> {
    fn new(panels: &'a [Panel]) -> Self {
        let bars = panels.iter().flat_map(|panel| &panel.bars);
        let series = distinct(bars.map(|bar| bar.series.as_str()));
        let groups = panels.iter().map(|panel| panel.labels().len());
        let groups = groups.max().unwrap_or(0).max(1);
        let bars_width = series.len() * BAR;
        let group_width = (ROOM / groups).max(bars_width + GAP);
        let legend: usize = series.iter().map(|series| legend_width(series)).sum();
        Self {
            bars_width,
            group_width,
            height: if panels.len() == 1 {
                HEIGHT_ALONE
            } else {
                HEIGHT
            },
            width: 2 * MARGIN + legend.max(groups * group_width),
            series,
        }
    }

    fn legend(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut x = MARGIN;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            writeln!(
                out,
                r#"<rect x="{x}" y="58" width="12" height="12" fill="{colour}"/>
<text x="{}" y="68">{}</text>"#,
                x + 17,
                escaped(series)
            )?;
            x += legend_width(series);
        }
        Ok(())
    }

    /// Draws a panel whose bars are on the line y = 0.
    fn panel(&self, out: &mut fmt::Formatter<'_>, panel: &Panel) -> fmt::Result {
        let scale = panel.scale();
        let note = match scale {
            Scale::Linear(_) => "",
            Scale::Logarithmic(..) => " (logarithmic scale)",
        };
        writeln!(
            out,
            r#"<text x="16" y="{}" font-weight="bold">{}{note}</text>"#,
            -self.height - 12.0,
            escaped(&panel.title)
        )?;

        let mut x = MARGIN + (self.group_width - self.bars_width) / 2;
        for label in panel.labels() {
            writeln!(out, r#"<g transform="translate({x} 0)">"#)?;
            for bar in panel.bars.iter().filter(|bar| bar.label == label) {
                self.bar(out, scale, bar)?;
            }
            self.label(out, label)?;
            writeln!(out, "</g>")?;
            x += self.group_width;
        }
        Ok(())
    }

    fn bar(&self, out: &mut fmt::Formatter<'_>, scale: Scale, bar: &Bar) -> fmt::Result {
        let mut series = self.series.iter().zip(COLOURS).enumerate();
        let Some((place, (_, colour))) = series.find(|(_, (series, _))| **series == bar.series)
        else {
            return Ok(());
        };
        let height = scale.height(self.height, bar.value);
        let (x, y, width) = (place * BAR, -height, BAR - 3);
        let (text_x, text_y, value, digits) = (x + 11, y - 4.0, bar.value, digits(bar.value));
        writeln!(
            out,
            r#"<rect x="{x}" y="{y:.1}" width="{width}" height="{height:.1}" fill="{colour}"/>
<text transform="translate({text_x} {text_y:.1}) rotate(-90)" font-size="10">{value:.digits$}</text>"#
        )
    }

    fn label(&self, out: &mut fmt::Formatter<'_>, label: &str) -> fmt::Result {
        let middle = self.bars_width / 2;
        for (y, line) in (18..).step_by(16).zip(label.lines()) {
            let line = escaped(line);
            writeln!(
                out,
                r#"<text x="{middle}" y="{y}" text-anchor="middle">{line}</text>"#
            )?;
        }
        Ok(())
    }
}

impl Panel {
    /// The medians of a figure, in groups by case and load. Rows without the figure are left out.
    pub(crate) fn from_rows(title: &str, figure: &str, rows: &[Row]) -> Self {
        let bar = |row: &Row| Bar {
            label: format!("{}\n{}", row.case, row.load),
            series: row.subject.clone(),
            value: row.median(figure),
        };
        let bars = rows.iter().map(bar);
        Self {
            title: title.to_owned(),
            bars: bars.filter(|bar| !bar.value.is_nan()).collect(),
        }
    }

    fn labels(&self) -> Vec<&str> {
        distinct(self.bars.iter().map(|bar| bar.label.as_str()))
    }

    /// A scale for all values.
    fn scale(&self) -> Scale {
        let positive = self.bars.iter().map(|bar| bar.value);
        let positive = positive.filter(|value| *value > 0.0);
        let most = positive.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = positive.fold(most, f64::min);
        if most > least * SPAN_MAX {
            Scale::Logarithmic(10_f64.powf(least.log10().floor()), most)
        } else {
            Scale::Linear(most)
        }
    }
}

impl Scale {
    /// The height of a bar in a panel of this height. A quarter is left for the numbers at the
    /// bars.
    fn height(self, panel: f64, value: f64) -> f64 {
        let share = match self {
            Self::Linear(most) => value / most,
            Self::Logarithmic(least, most) => (value / least).log10() / (most / least).log10(),
        };
        panel * 0.75 * share.clamp(0.0, 1.0)
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = Layout::new(&self.panels);
        let panel_height = PANEL_TITLE + layout.height + FOOT;
        let height = TOP + float(self.panels.len() as u64) * panel_height;
        let (width, title, subtitle) =
            (layout.width, escaped(&self.title), escaped(&self.subtitle));
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">
{STYLE}
<rect class="ground" width="{width}" height="{height}"/>
<text x="16" y="26" font-size="17" font-weight="bold">{title}</text>
<text class="faint" x="16" y="45">{subtitle}</text>"#
        )?;
        layout.legend(out)?;

        let mut y = TOP - FOOT;
        for panel in &self.panels {
            y += panel_height;
            writeln!(out, r#"<g transform="translate(0 {y})">"#)?;
            layout.panel(out, panel)?;
            writeln!(out, "</g>")?;
        }
        writeln!(out, "</svg>")
    }
}

/// Decimal places that show three significant digits, at most four.
fn digits(value: f64) -> usize {
    let places = 2.0 - value.log10().floor();
    if value > 0.0 {
        whole(places.clamp(0.0, 4.0))
    } else {
        0
    }
}

/// The width of a series in the legend.
fn legend_width(series: &str) -> usize {
    36 + series.len() * 7
}

/// Text with the characters escaped that have a meaning in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(values: &[f64]) -> Panel {
        let bar = |(series, value): (char, &f64)| Bar {
            label: "g".to_owned(),
            series: series.to_string(),
            value: *value,
        };
        Panel {
            title: "a<b".to_owned(),
            bars: ('a'..).zip(values).map(bar).collect(),
        }
    }

    #[test]
    fn higher_values_are_higher_and_none_is_at_the_ground() {
        let linear = panel(&[0.5, 1.0]).scale();
        assert!(linear.height(100.0, 1.0) > linear.height(100.0, 0.5));
        let logarithmic = panel(&[0.0, 1.0, 1_000.0]).scale();
        assert!(logarithmic.height(100.0, 0.0).abs() < 1e-9);
        assert!((logarithmic.height(100.0, 1_000.0) - 75.0).abs() < 1e-9);
    }

    #[test]
    fn a_scale_ends_at_the_highest_value() {
        let wide = panel(&[0.0, 20.0, 900.0]).scale();
        assert_eq!(wide, Scale::Logarithmic(10.0, 900.0));
        assert_eq!(panel(&[20.0, 90.0]).scale(), Scale::Linear(90.0));
    }

    #[test]
    fn three_digits_are_shown() {
        let shown = [0.0, 0.001_23, 0.987, 9.5, 41_000.0].map(digits);
        assert_eq!(shown, [0, 4, 3, 2, 0]);
    }

    #[test]
    fn rows_become_bars_and_what_was_not_measured_leaves_a_gap() {
        let row = |load: &str, subject: &str, figure| {
            let rounds = vec![[(figure, 20.0)].into()];
            Row::new("hot", load, subject, rounds)
        };
        let rows = [
            row("1", "x", "ns"),
            row("2", "y", "ns"),
            row("3", "y", "us"),
        ];
        let panel = Panel::from_rows("t", "ns", &rows);
        let found: Vec<_> = panel
            .bars
            .iter()
            .map(|bar| (bar.label.as_str(), bar.series.as_str()))
            .collect();
        assert_eq!(found, [("hot\n1", "x"), ("hot\n2", "y")]);
    }

    #[test]
    fn every_value_has_a_bar_and_texts_cannot_end_their_element() {
        let picture = Picture {
            title: "t".to_owned(),
            subtitle: "s".to_owned(),
            panels: vec![panel(&[0.5, 1.0])],
        };
        let svg = picture.to_string();
        assert!(svg.contains("a&lt;b"));
        // The background, two legend entries and two bars.
        assert_eq!(svg.matches("<rect").count(), 5);
        assert!(svg.contains("prefers-color-scheme:dark"));
    }
}
