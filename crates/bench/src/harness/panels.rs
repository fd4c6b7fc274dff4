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
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) panels: Vec<Panel>,
}

/// One bar chart of a picture.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// At most one bar for each label and series; a missing one leaves a gap.
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// The label of the group of bars that this one belongs to, in one or two lines.
    pub(crate) label: String,
    pub(crate) series: String,
    /// Not negative.
    pub(crate) value: f64,
}

/// The vertical scale of a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// From zero to this value.
    Linear(f64),
    /// From the first value to the second, by powers of ten. Smaller values, such as zero, have no
    /// height.
    Logarithmic(f64, f64),
}

/// The colours can be distinguished on either background, also with the most common kinds of colour
/// blindness.
const COLOURS: [&str; 9] = [
    "#0072b2", "#009e73", "#e69f00", "#f0d49a", "#d55e00", "#999999", "#cc79a7", "#56b4e9",
    "#7f6000",
];
const STYLE: &str = concat!(
    "<style>.ground{fill:#fff}.ink{fill:#1a1a1a}.faint{fill:#595959}.grid{stroke:#ddd}",
    "@media (prefers-color-scheme:dark){.ground{fill:#14171c}.ink{fill:#eee}",
    ".faint{fill:#aab}.grid{stroke:#3a3f48}}</style>"
);
const WIDTH_MIN: usize = 860;
const LEFT: usize = 64;
const RIGHT: usize = 16;
const BAR: usize = 16;
const GAP: usize = 28;
const TOP: f64 = 84.0;
const PANEL_TITLE: f64 = 30.0;
const HEIGHT: f64 = 170.0;
/// The height of the only panel of a picture.
const HEIGHT_ALONE: f64 = 360.0;
const FOOT: f64 = 52.0;
/// Values that differ by more than this factor are shown on a logarithmic scale.
const SPAN_MAX: f64 = 8.0;
/// Grid lines on a linear scale.
const STEPS: u32 = 4;
/// The most grid lines on a logarithmic scale.
const DECADES_MAX: i32 = 16;

impl Picture {
    /// All series, in the order of the first bar of each.
    fn series(&self) -> Vec<&str> {
        let bars = self.panels.iter().flat_map(|panel| &panel.bars);
        distinct(bars.map(|bar| bar.series.as_str()))
    }

    fn bars_width(&self) -> usize {
        self.series().len() * BAR
    }

    /// The largest number of groups of any panel.
    fn groups(&self) -> usize {
        let groups = self.panels.iter().map(|panel| panel.labels().len());
        groups.max().unwrap_or(0)
    }

    /// As wide as the bars need, or as the picture has room for.
    fn group_width(&self) -> usize {
        let room = (WIDTH_MIN - LEFT - RIGHT) / self.groups().max(1);
        room.max(self.bars_width() + GAP)
    }

    fn width(&self) -> usize {
        let legend: usize = self.series().into_iter().map(legend_width).sum();
        let bars = LEFT + self.groups() * self.group_width();
        (RIGHT + bars.max(legend + RIGHT)).max(WIDTH_MIN)
    }

    /// The height of a panel's bars.
    fn bars_height(&self) -> f64 {
        match self.panels.len() {
            1 => HEIGHT_ALONE,
            _ => HEIGHT,
        }
    }

    fn height(&self) -> f64 {
        TOP + float(self.panels.len() as u64) * (PANEL_TITLE + self.bars_height() + FOOT)
    }

    fn legend(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut x = 16;
        for (series, colour) in self.series().into_iter().zip(COLOURS) {
            writeln!(
                out,
                r#"<rect x="{x}" y="58" width="12" height="12" fill="{colour}"/>
<text class="ink" x="{}" y="68">{}</text>"#,
                x + 17,
                escaped(series)
            )?;
            x += legend_width(series);
        }
        Ok(())
    }

    /// Draws a panel whose bars are on the line y = 0.
    fn panel(&self, out: &mut fmt::Formatter<'_>, panel: &Panel) -> fmt::Result {
        let (scale, height) = (panel.scale(), self.bars_height());
        let note = match scale {
            Scale::Linear(_) => "",
            Scale::Logarithmic(..) => " (logarithmic scale)",
        };
        writeln!(
            out,
            r#"<text class="ink" x="16" y="{}" font-weight="bold">{}{note}</text>"#,
            -height - 12.0,
            escaped(&panel.title)
        )?;

        let (text_right, right) = (LEFT - 6, self.width() - RIGHT);
        for value in scale.marks() {
            let y = -scale.height(height, value);
            writeln!(
                out,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>
<text class="faint" x="{text_right}" y="{:.1}" text-anchor="end">{value}</text>"#,
                y + 4.0
            )?;
        }

        let margin = (self.group_width() - self.bars_width()) / 2;
        for (place, label) in panel.labels().into_iter().enumerate() {
            let left = LEFT + place * self.group_width() + margin;
            writeln!(out, r#"<g transform="translate({left} 0)">"#)?;
            self.group(out, panel, scale, label)?;
            writeln!(out, "</g>")?;
        }
        Ok(())
    }

    /// Draws the bars with this label, the first of which begins at x = 0.
    fn group(
        &self,
        out: &mut fmt::Formatter<'_>,
        panel: &Panel,
        scale: Scale,
        label: &str,
    ) -> fmt::Result {
        for (place, (series, colour)) in self.series().into_iter().zip(COLOURS).enumerate() {
            let is_here = |bar: &&Bar| bar.label == label && bar.series == series;
            let Some(Bar { value, .. }) = panel.bars.iter().find(is_here) else {
                continue;
            };
            let height = scale.height(self.bars_height(), *value);
            let (x, width, digits) = (place * BAR, BAR - 3, digits(*value));
            writeln!(
                out,
                r#"<rect x="{x}" y="{:.1}" width="{width}" height="{height:.1}" fill="{colour}"/>
<text class="ink" transform="translate({} {:.1}) rotate(-90)" font-size="10">{value:.digits$}</text>"#,
                -height,
                x + 11,
                -height - 4.0
            )?;
        }

        let middle = self.bars_width() / 2;
        for (y, line) in (18..).step_by(16).zip(label.lines()) {
            let line = escaped(line);
            writeln!(
                out,
                r#"<text class="ink" x="{middle}" y="{y}" text-anchor="middle">{line}</text>"#
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
        let values = self.bars.iter().map(|bar| bar.value);
        let most = values.clone().fold(0.0, f64::max);
        let positive = values.filter(|value| *value > 0.0);
        let least = positive.fold(f64::MAX, f64::min);
        if most > least * SPAN_MAX {
            Scale::Logarithmic(decade_below(least), most)
        } else {
            Scale::Linear(round_above(most.max(1.0)))
        }
    }
}

impl Scale {
    /// The height of a bar in a panel of this height. A quarter is left for the numbers at the
    /// bars.
    fn height(self, panel: f64, value: f64) -> f64 {
        let share = match self {
            Self::Linear(most) => value / most,
            Self::Logarithmic(least, most) => {
                (value / least).log10() / (most / least).log10().max(1.0)
            }
        };
        panel * 0.75 * share.clamp(0.0, 1.0)
    }

    /// The values of the grid lines.
    fn marks(self) -> Vec<f64> {
        match self {
            Self::Linear(most) => (0..=STEPS)
                .map(|step| most * f64::from(step) / f64::from(STEPS))
                .collect(),
            Self::Logarithmic(least, most) => (0..DECADES_MAX)
                .map(|decade| least * 10_f64.powi(decade))
                .take_while(|value| *value <= most.max(least * 10.0))
                .collect(),
        }
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (self.width(), self.height());
        let size = format!(r#"width="{width}" height="{height}""#);
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">
{STYLE}
<rect class="ground" {size}/>
<text class="ink" x="16" y="26" font-size="17" font-weight="bold">{}</text>
<text class="faint" x="16" y="45">{}</text>"#,
            escaped(&self.title),
            escaped(&self.subtitle)
        )?;
        self.legend(out)?;

        let mut y = TOP;
        for panel in &self.panels {
            y += PANEL_TITLE + self.bars_height();
            writeln!(out, r#"<g transform="translate(0 {y})">"#)?;
            self.panel(out, panel)?;
            writeln!(out, "</g>")?;
            y += FOOT;
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

/// The next of 1, 2, 4, 8, 10, 20 and so on that is not less: its quarters have few digits.
fn round_above(value: f64) -> f64 {
    [1.0, 2.0, 4.0, 8.0, 10.0]
        .map(|step| step * decade_below(value))
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(value)
}

fn decade_below(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
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
        assert_eq!(logarithmic.marks().len(), 4);
    }

    #[test]
    fn a_scale_ends_above_its_values() {
        let found = [1.0, 3.5, 12.0, 41_000.0]
            .map(round_above)
            .map(|value| format!("{value:.0}"));
        assert_eq!(found, ["1", "4", "20", "80000"]);
        let wide = panel(&[0.0, 20.0, 900.0]).scale();
        assert_eq!(wide, Scale::Logarithmic(10.0, 900.0));
        assert_eq!(panel(&[20.0, 90.0]).scale(), Scale::Linear(100.0));
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
