//! Several small bar charts in one SVG picture, for values that do not share a scale.
//!
//! The colours follow the viewer's preference for a dark scheme; without a preference the
//! background is white.

use std::fmt;

use crate::chart::EscapedText;

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
const COLOURS: [&str; 7] = [
    "#0072b2", "#009e73", "#e69f00", "#f0d49a", "#d55e00", "#999999", "#cc79a7",
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
const FOOT: u32 = 36;
const BAR: u32 = 16;
const GAP: u32 = 28;
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
        (LEFT + RIGHT + self.groups() * self.group_width()).max(WIDTH_MIN)
    }

    fn height(&self) -> u32 {
        TOP + count(&self.panels) * (PANEL_TITLE + HEIGHT + FOOT)
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
            x += 36 + count(series.as_bytes()) * 7;
        }
        Ok(())
    }

    fn panel(&self, out: &mut fmt::Formatter<'_>, index: u32, panel: &Panel) -> fmt::Result {
        let top = TOP + index * (PANEL_TITLE + HEIGHT + FOOT) + PANEL_TITLE;
        text(
            out,
            "ink",
            (16, top - 12),
            r#"font-weight="bold""#,
            &panel.title,
        )?;
        let right = self.width() - RIGHT;
        for (value, label) in panel.marks() {
            let y = panel.y(top, value);
            writeln!(
                out,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#
            )?;
            writeln!(
                out,
                r#"<text class="faint" x="{}" y="{:.1}" text-anchor="end">{label}</text>"#,
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
        let bottom = f64::from(top + HEIGHT);
        for (bar, (value, colour)) in (0..).zip(group.values.iter().zip(COLOURS)) {
            let Some(value) = *value else { continue };
            let (x, y) = (left + bar * BAR, panel.y(top, value));
            let (width, height) = (BAR - 3, bottom - y);
            writeln!(
                out,
                r#"<rect x="{x}" y="{y:.1}" width="{width}" height="{height:.1}" fill="{colour}"/>"#
            )?;
            let (x, y, digits) = (x + 11, y - 4.0, panel.digits);
            writeln!(
                out,
                concat!(
                    r#"<text class="ink" transform="translate({x} {y:.1}) rotate(-90)" "#,
                    r#"font-size="10">{value:.digits$}</text>"#
                ),
                x = x,
                y = y,
                value = value,
                digits = digits
            )?;
        }
        let middle = left + self.bars_width() / 2;
        text(
            out,
            "ink",
            (middle, top + HEIGHT + 18),
            r#"text-anchor="middle""#,
            &group.label,
        )
    }
}

impl Panel {
    /// The distance of a value from the picture's top edge. A quarter of the height is left for the
    /// numbers at the bars.
    fn y(&self, top: u32, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear(most) => value / most,
            Scale::Logarithmic(least) => {
                let decades = (self.highest() / least).log10().max(1.0);
                (value / least).log10() / decades
            }
        };
        f64::from(top) + f64::from(HEIGHT) * (1.0 - 0.75 * share.clamp(0.0, 1.0))
    }

    fn highest(&self) -> f64 {
        self.groups
            .iter()
            .flat_map(|group| group.values.iter().copied().flatten())
            .fold(0.0, f64::max)
    }

    /// The positions and labels of the grid lines.
    fn marks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear(most) => (0..=STEPS)
                .map(|step| most * f64::from(step) / f64::from(STEPS))
                .map(|value| (value, format!("{value}")))
                .collect(),
            Scale::Logarithmic(least) => (0..DECADES_MAX)
                .map(|decade| least * 10_f64.powi(decade))
                .take_while(|value| *value <= self.highest().max(least * 10.0))
                .map(|value| (value, format!("{value}")))
                .collect(),
        }
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (self.width(), self.height());
        writeln!(
            out,
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" "#,
                r#"viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">"#
            ),
            width = width,
            height = height
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
        EscapedText(words)
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
        assert!(linear.y(0, 1.0) < linear.y(0, 0.5));
        let logarithmic = panel(Scale::Logarithmic(1.0), &[0.0, 1_000.0]);
        assert!((logarithmic.y(0, 0.0) - f64::from(HEIGHT)).abs() < 1e-9);
        assert!((logarithmic.y(0, 1_000.0) - f64::from(HEIGHT) * 0.25).abs() < 1e-9);
        assert_eq!(logarithmic.marks().len(), 4);
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
