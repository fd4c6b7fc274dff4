//! Bar charts in an SVG picture: one, or several small ones for values that do not share a scale.
//! `picture.svg` draws them; here are the places and heights.

use askama::Template;

use super::report::distinct;
use super::row::{Row, float};
use super::text::whole;

/// A picture with several panels, in which a series has the same colour everywhere.
#[derive(Debug, Default, Template)]
#[template(path = "picture.svg")]
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

#[derive(Debug)]
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

/// The width for the groups of a panel, unless their bars need more.
const ROOM: usize = 780;
const MARGIN: usize = 16;
/// The left edge of the groups, with room for the numbers at the grid lines.
const LEFT: usize = 64;
/// The distance of the bars of a group, and that of groups.
const BAR: usize = 16;
const GAP: usize = 28;
const TOP: usize = 84;
const PANEL_TITLE: usize = 30;
const FOOT: usize = 52;
/// Values that differ by more than this factor are shown on a logarithmic scale.
const SPAN_MAX: f64 = 8.0;
/// The most grid lines on a logarithmic scale.
const DECADES_MAX: i32 = 16;

impl Picture {
    /// All series, in the order of the first bar of each.
    fn series(&self) -> Vec<&str> {
        let bars = self.panels.iter().flat_map(|panel| &panel.bars);
        distinct(bars.map(|bar| bar.series.as_str()))
    }

    /// The position of a bar among those of its group.
    fn place(&self, bar: &Bar) -> usize {
        let series = self.series().into_iter();
        series.take_while(|series| *series != bar.series).count()
    }

    /// The left edge of a series in the legend.
    fn legend_x(&self, place: usize) -> usize {
        let before = self.series().into_iter().take(place);
        MARGIN + before.map(|series| 36 + series.len() * 7).sum::<usize>()
    }

    fn bars_width(&self) -> usize {
        self.series().len() * BAR
    }

    /// The largest number of groups of any panel.
    fn groups(&self) -> usize {
        let groups = self.panels.iter().map(|panel| panel.labels().len());
        groups.max().unwrap_or(0).max(1)
    }

    /// As wide as the bars need, or as the picture has room for.
    fn group_width(&self) -> usize {
        (ROOM / self.groups()).max(self.bars_width() + GAP)
    }

    /// The left edge of the bars of a group.
    fn group_x(&self, place: usize) -> usize {
        let margin = (self.group_width() - self.bars_width()) / 2;
        LEFT + place * self.group_width() + margin
    }

    fn width(&self) -> usize {
        let groups = LEFT + self.groups() * self.group_width();
        MARGIN + groups.max(self.legend_x(self.series().len()))
    }

    /// The only panel of a picture is higher.
    fn bars_height(&self) -> usize {
        if self.panels.len() == 1 { 360 } else { 170 }
    }

    /// The line on which the bars of a panel are, counted from 1.
    fn ground(&self, number: usize) -> usize {
        TOP + number * (PANEL_TITLE + self.bars_height() + FOOT) - FOOT
    }

    fn height(&self) -> usize {
        self.ground(self.panels.len()) + FOOT
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

    fn bars_of(&self, label: &str) -> impl Iterator<Item = &Bar> {
        self.bars.iter().filter(move |bar| bar.label == label)
    }

    /// A scale for all values.
    fn scale(&self) -> Scale {
        let positive = self.bars.iter().map(|bar| bar.value);
        let positive = positive.filter(|value| *value > 0.0);
        let most = positive.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = positive.fold(most, f64::min);
        if most > least * SPAN_MAX {
            Scale::Logarithmic(decade_below(least), most)
        } else {
            Scale::Linear(round_above(most))
        }
    }
}

impl Bar {
    /// The value with three significant digits, and at most four decimal places.
    fn number(&self) -> String {
        let places = 2.0 - self.value.log10().floor();
        let digits = if self.value > 0.0 {
            whole(places.clamp(0.0, 4.0))
        } else {
            0
        };
        format!("{:.digits$}", self.value)
    }
}

impl Scale {
    const fn is_logarithmic(self) -> bool {
        matches!(self, Self::Logarithmic(..))
    }

    /// The values of the grid lines.
    fn marks(self) -> Vec<f64> {
        match self {
            Self::Linear(most) => [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| most * share).into(),
            Self::Logarithmic(least, most) => (0..DECADES_MAX)
                .map(|decade| least * 10_f64.powi(decade))
                .take_while(|value| *value <= most)
                .collect(),
        }
    }

    /// The height of a bar in a panel of this height. A quarter is left for the numbers at the
    /// bars.
    fn height(self, panel: usize, value: f64) -> usize {
        let share = match self {
            Self::Linear(most) => value / most,
            Self::Logarithmic(least, most) => (value / least).log10() / (most / least).log10(),
        };
        whole(float(panel as u64) * 0.75 * share.clamp(0.0, 1.0))
    }
}

/// The next of 1, 2, 4, 8, 10, 20 and so on that is not less: its quarters have few digits.
fn round_above(value: f64) -> f64 {
    let steps = [1.0, 2.0, 4.0, 8.0, 10.0].map(|step| step * decade_below(value));
    let above = steps.into_iter().find(|step| *step >= value);
    above.unwrap_or(value)
}

fn decade_below(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
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
        assert!(linear.height(100, 1.0) > linear.height(100, 0.5));
        let logarithmic = panel(&[0.0, 1.0, 1_000.0]).scale();
        assert_eq!(logarithmic.height(100, 0.0), 0);
        assert_eq!(logarithmic.height(100, 1_000.0), 75);
    }

    #[test]
    fn a_scale_ends_above_its_values() {
        let wide = panel(&[0.0, 20.0, 900.0]).scale();
        assert_eq!(wide, Scale::Logarithmic(10.0, 900.0));
        assert_eq!(wide.marks(), [10.0, 100.0]);
        assert_eq!(panel(&[20.0, 90.0]).scale(), Scale::Linear(100.0));
        let found = [1.0, 3.5, 12.0, 41_000.0].map(round_above);
        assert_eq!(found.map(whole), [1, 4, 20, 80_000]);
    }

    #[test]
    fn three_digits_are_shown() {
        let panel = panel(&[0.0, 0.001_23, 0.987, 9.5, 41_000.0]);
        let shown: Vec<String> = panel.bars.iter().map(Bar::number).collect();
        assert_eq!(shown, ["0", "0.0012", "0.987", "9.50", "41000"]);
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
        assert!(svg.contains("a&#60;b"), "{svg}");
        // The background, two legend entries and two bars.
        assert_eq!(svg.matches("<rect").count(), 5);
        assert!(svg.contains("prefers-color-scheme: dark"));
    }
}
