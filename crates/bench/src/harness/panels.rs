//! Bar charts in an SVG picture: one, or several small ones for values that do not share a scale.
//! They are short enough to write by hand, so they need no dependency.
//!
//! The colours follow the viewer's preference for a dark scheme; without a preference the
//! background is white.

use std::fmt;

use super::report::distinct;
use super::row::Row;

/// A picture with several panels.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) series: Vec<String>,
    pub(crate) panels: Vec<Panel>,
}

/// One bar chart of a picture, with a group of bars for each label.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// Decimal places of the numbers at the bars.
    pub(crate) digits: usize,
    pub(crate) groups: Vec<Group>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// One or two lines.
    pub(crate) label: String,
    /// One value for each series; a missing value leaves a gap.
    pub(crate) values: Vec<Option<f64>>,
}

/// The vertical scale of a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero to this value.
    Linear(f64),
    /// From this value up, by powers of ten. Smaller values, such as zero, have no height.
    Logarithmic(f64),
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
const WIDTH_MIN: u32 = 860;
const LEFT: u32 = 64;
const RIGHT: u32 = 16;
const TOP: u32 = 84;
const PANEL_TITLE: u32 = 30;
const HEIGHT: u32 = 170;
/// The height of the only panel of a picture.
const HEIGHT_ALONE: u32 = 360;
const FOOT: u32 = 52;
const BAR: u32 = 16;
const GAP: u32 = 28;
/// Values that differ by more than this factor are shown on a logarithmic scale.
const SPAN_MAX: f64 = 8.0;
/// Grid lines on a linear scale.
const STEPS: u32 = 4;
/// The most grid lines on a logarithmic scale.
const DECADES_MAX: i32 = 16;

impl Picture {
    fn bars_width(&self) -> u32 {
        count(&self.series) * BAR
    }

    /// The largest number of groups of any panel.
    fn groups(&self) -> u32 {
        self.panels
            .iter()
            .map(|panel| count(&panel.groups))
            .max()
            .unwrap_or(0)
    }

    /// As wide as the bars need, or as the picture has room for.
    fn group_width(&self) -> u32 {
        let room = (WIDTH_MIN - LEFT - RIGHT) / self.groups().max(1);
        room.max(self.bars_width() + GAP)
    }

    fn width(&self) -> u32 {
        let legend: u32 = self.series.iter().map(|series| legend_width(series)).sum();
        let bars = LEFT + self.groups() * self.group_width();
        (RIGHT + bars.max(legend + RIGHT)).max(WIDTH_MIN)
    }

    /// The height of a panel's bars.
    fn bars_height(&self) -> u32 {
        if self.panels.len() == 1 {
            HEIGHT_ALONE
        } else {
            HEIGHT
        }
    }

    fn panel_height(&self) -> u32 {
        PANEL_TITLE + self.bars_height() + FOOT
    }

    fn height(&self) -> u32 {
        TOP + count(&self.panels) * self.panel_height()
    }

    fn heading(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        text(
            out,
            "ink",
            (16, 26),
            r#"font-size="17" font-weight="bold""#,
            &self.title,
        )?;
        text(out, "faint", (16, 45), "", &self.subtitle)?;
        let mut x = 16;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            writeln!(
                out,
                r#"<rect x="{x}" y="58" width="12" height="12" fill="{colour}"/>"#
            )?;
            text(out, "ink", (x + 17, 68), "", series)?;
            x += legend_width(series);
        }
        Ok(())
    }

    fn panel(&self, out: &mut fmt::Formatter<'_>, index: u32, panel: &Panel) -> fmt::Result {
        let top = TOP + index * self.panel_height() + PANEL_TITLE;
        let height = self.bars_height();
        text(
            out,
            "ink",
            (16, top - 12),
            r#"font-weight="bold""#,
            &panel.title,
        )?;
        let right = self.width() - RIGHT;
        for value in panel.marks() {
            let y = f64::from(top) + panel.y(height, value);
            writeln!(
                out,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#
            )?;
            writeln!(
                out,
                r#"<text class="faint" x="{}" y="{:.1}" text-anchor="end">{value}</text>"#,
                LEFT - 6,
                y + 4.0
            )?;
        }
        for (place, group) in (0..).zip(&panel.groups) {
            let left =
                LEFT + place * self.group_width() + (self.group_width() - self.bars_width()) / 2;
            self.group(out, (left, top), panel, group)?;
        }
        Ok(())
    }

    fn group(
        &self,
        out: &mut fmt::Formatter<'_>,
        (left, top): (u32, u32),
        panel: &Panel,
        group: &Group,
    ) -> fmt::Result {
        let bottom = top + self.bars_height();
        for (bar, (value, colour)) in (0..).zip(group.values.iter().zip(COLOURS)) {
            let Some(value) = *value else { continue };
            let y = f64::from(top) + panel.y(self.bars_height(), value);
            let (x, width, height) = (left + bar * BAR, BAR - 3, f64::from(bottom) - y);
            writeln!(
                out,
                r#"<rect x="{x}" y="{y:.1}" width="{width}" height="{height:.1}" fill="{colour}"/>"#
            )?;
            let (x, y, digits) = (x + 11, y - 4.0, panel.digits);
            let turned = format!(r#"transform="translate({x} {y:.1}) rotate(-90)""#);
            writeln!(
                out,
                r#"<text class="ink" {turned} font-size="10">{value:.digits$}</text>"#
            )?;
        }
        let middle = left + self.bars_width() / 2;
        for (y, line) in (bottom + 18..).step_by(16).zip(group.label.lines()) {
            text(out, "ink", (middle, y), r#"text-anchor="middle""#, line)?;
        }
        Ok(())
    }
}

impl Panel {
    /// A panel with the medians of a figure, in groups by case and load. Rows without the figure
    /// are left out.
    pub(crate) fn from_rows(title: &str, figure: &str, subjects: &[&str], rows: &[Row]) -> Self {
        let label = |row: &Row| format!("{}\n{}", row.case, row.load);
        let rows = || rows.iter().filter(|row| !row.median(figure).is_nan());
        let group = |group: String| {
            let value = |subject: &&str| {
                let found = rows().find(|row| row.subject == *subject && label(row) == group);
                found.map(|row| row.median(figure))
            };
            let values = subjects.iter().map(value).collect();
            Group {
                label: group,
                values,
            }
        };

        let scale = Scale::for_values(rows().map(|row| row.median(figure)));
        let (note, digits) = match scale {
            Scale::Logarithmic(_) => (" (logarithmic scale)", 0),
            Scale::Linear(most) => ("", usize::from(most < 100.0)),
        };
        Self {
            title: format!("{title}{note}"),
            scale,
            digits,
            groups: distinct(rows().map(label)).into_iter().map(group).collect(),
        }
    }

    /// The distance of a value from the panel's top edge. A quarter of the height is left for the
    /// numbers at the bars.
    fn y(&self, height: u32, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear(most) => value / most,
            Scale::Logarithmic(least) => {
                let decades = (self.highest() / least).log10().max(1.0);
                (value / least).log10() / decades
            }
        };
        f64::from(height) * (1.0 - 0.75 * share.clamp(0.0, 1.0))
    }

    fn highest(&self) -> f64 {
        self.groups
            .iter()
            .flat_map(|group| group.values.iter().copied().flatten())
            .fold(0.0, f64::max)
    }

    /// The values of the grid lines.
    fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear(most) => (0..=STEPS)
                .map(|step| most * f64::from(step) / f64::from(STEPS))
                .collect(),
            Scale::Logarithmic(least) => (0..DECADES_MAX)
                .map(|decade| least * 10_f64.powi(decade))
                .take_while(|value| *value <= self.highest().max(least * 10.0))
                .collect(),
        }
    }
}

impl Scale {
    /// A scale for values that are not negative.
    fn for_values(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (least, most) = positive.fold((f64::MAX, 0.0), |(least, most): (f64, f64), value| {
            (least.min(value), most.max(value))
        });
        if most > least * SPAN_MAX {
            Self::Logarithmic(decade_below(least))
        } else {
            Self::Linear(round_above(most.max(1.0)))
        }
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (self.width(), self.height());
        let size = format!(r#"width="{width}" height="{height}" viewBox="0 0 {width} {height}""#);
        let font = r#"font-family="sans-serif" font-size="12""#;
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>"#
        )?;
        writeln!(out, "{STYLE}")?;
        writeln!(
            out,
            r#"<rect class="ground" width="{width}" height="{height}"/>"#
        )?;
        self.heading(out)?;
        for (index, panel) in (0..).zip(&self.panels) {
            self.panel(out, index, panel)?;
        }
        writeln!(out, "</svg>")
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
fn legend_width(series: &str) -> u32 {
    36 + count(series.as_bytes()) * 7
}

/// Text with the characters escaped that have a meaning in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn text(
    out: &mut fmt::Formatter<'_>,
    class: &str,
    (x, y): (u32, u32),
    style: &str,
    words: &str,
) -> fmt::Result {
    writeln!(
        out,
        r#"<text class="{class}" x="{x}" y="{y}" {style}>{}</text>"#,
        escaped(words)
    )
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(scale: Scale, values: &[f64]) -> Panel {
        let values = values.iter().copied().map(Some).chain([None]).collect();
        Panel {
            title: "a<b".to_owned(),
            scale,
            digits: 2,
            groups: vec![Group {
                label: "g".to_owned(),
                values,
            }],
        }
    }

    #[test]
    fn higher_values_are_higher_and_none_is_at_the_ground() {
        let linear = panel(Scale::Linear(1.0), &[0.5, 1.0]);
        assert!(linear.y(100, 1.0) < linear.y(100, 0.5));
        let logarithmic = panel(Scale::Logarithmic(1.0), &[0.0, 1_000.0]);
        assert!((logarithmic.y(100, 0.0) - 100.0).abs() < 1e-9);
        assert!((logarithmic.y(100, 1_000.0) - 25.0).abs() < 1e-9);
        assert_eq!(logarithmic.marks().len(), 4);
    }

    #[test]
    fn a_scale_ends_above_its_values() {
        let found = [1.0, 3.5, 12.0, 41_000.0]
            .map(round_above)
            .map(|value| format!("{value:.0}"));
        assert_eq!(found, ["1", "4", "20", "80000"]);
        let wide = Scale::for_values([0.0, 20.0, 900.0].into_iter());
        assert_eq!(wide, Scale::Logarithmic(10.0));
        let narrow = Scale::for_values([20.0, 90.0].into_iter());
        assert_eq!(narrow, Scale::Linear(100.0));
    }

    #[test]
    fn rows_become_groups_and_what_was_not_measured_leaves_a_gap() {
        let row = |load: &str, subject: &str, figure| {
            let rounds = vec![[(figure, 20.0)].into()];
            Row::new("hot", load, subject, rounds)
        };
        let rows = [
            row("1", "x", "ns"),
            row("2", "y", "ns"),
            row("3", "y", "us"),
        ];
        let panel = Panel::from_rows("t", "ns", &["x", "y"], &rows);
        let found: Vec<_> = panel
            .groups
            .iter()
            .map(|group| (group.label.as_str(), &group.values[..]))
            .collect();
        let (one, two) = ([Some(20.0), None], [None, Some(20.0)]);
        assert_eq!(found, [("hot\n1", &one[..]), ("hot\n2", &two[..])]);
    }

    #[test]
    fn every_value_has_a_bar_and_texts_cannot_end_their_element() {
        let picture = Picture {
            title: "t".to_owned(),
            subtitle: "s".to_owned(),
            series: ["x", "y", "z"].map(str::to_owned).to_vec(),
            panels: vec![panel(Scale::Linear(1.0), &[0.5, 1.0])],
        };
        let svg = picture.to_string();
        assert!(svg.contains("a&lt;b"));
        // The background, three legend entries and two bars.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.contains("prefers-color-scheme:dark"));
    }
}
