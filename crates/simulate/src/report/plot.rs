//! Plots counts over time as SVG. The colors come from the style sheet of the page.

use std::fmt::{self, Write as _};

use super::escape::HtmlText;
use crate::text::grouped;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 10.0;
const FOOT: f64 = 24.0;

/// An area chart of one or more series of counts over the same steps.
#[derive(Clone, Debug)]
pub(super) struct TimelinePlot<'p> {
    /// The description for screen readers.
    pub(super) title: String,
    pub(super) from: &'p str,
    pub(super) to: &'p str,
    /// The series, bottom first, each with its CSS class.
    pub(super) layers: Vec<(&'static str, &'p [u64])>,
    /// Whether the series are stacked on each other. If not, all of them start at zero.
    pub(super) is_stacked: bool,
}

impl TimelinePlot<'_> {
    fn steps(&self) -> usize {
        self.layers
            .iter()
            .map(|(_, counts)| counts.len())
            .max()
            .unwrap_or_default()
    }

    /// The lower edge of a layer in a step.
    fn bottom(&self, layer: usize, at: usize) -> u64 {
        let lower = if self.is_stacked { layer } else { 0 };
        self.layers[..lower]
            .iter()
            .map(|(_, counts)| count(counts, at))
            .sum()
    }

    /// The highest value of any step, at least 1.
    fn highest(&self) -> u64 {
        let tops = (0..self.steps()).flat_map(|at| {
            (0..self.layers.len())
                .map(move |layer| self.bottom(layer, at) + count(self.layers[layer].1, at))
        });
        tops.max().unwrap_or_default().max(1)
    }

    /// The SVG path of a layer: along its upper edge, and back along its lower edge.
    fn outline(&self, layer: usize, highest: u64) -> String {
        let steps = self.steps();
        let x = |at: usize| LEFT + (WIDTH - LEFT) * ratio(at as u64, steps as u64);
        let y = |value: u64| TOP + HEIGHT * (1.0 - ratio(value, highest));
        let top = |at: usize| self.bottom(layer, at) + count(self.layers[layer].1, at);

        let mut path = String::new();
        let mut step = |at: usize, value: u64| {
            let sign = if path.is_empty() { 'M' } else { 'L' };
            let _infallible = write!(
                path,
                "{sign}{:.1} {:.1}L{:.1} {:.1}",
                x(at),
                y(value),
                x(at + 1),
                y(value)
            );
        };

        (0..steps).for_each(|at| step(at, top(at)));
        for at in (0..steps).rev() {
            let bottom = y(self.bottom(layer, at));
            let _infallible = write!(
                path,
                "L{:.1} {bottom:.1}L{:.1} {bottom:.1}",
                x(at + 1),
                x(at)
            );
        }
        path + "Z"
    }
}

fn count(counts: &[u64], at: usize) -> u64 {
    counts.get(at).copied().unwrap_or_default()
}

/// `part / whole`, or 0 if `whole` is 0.
#[expect(
    clippy::cast_precision_loss,
    reason = "a plot needs less precision than a float has"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

impl fmt::Display for TimelinePlot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.highest();
        let (height, base) = (TOP + HEIGHT + FOOT, TOP + HEIGHT);
        write!(
            f,
            r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
            HtmlText(&self.title)
        )?;

        for (value, y) in [(highest, TOP), (highest / 2, TOP + HEIGHT / 2.0), (0, base)] {
            write!(f, r#"<path class="grid" d="M{LEFT} {y:.1}H{WIDTH}"/>"#)?;
            write!(
                f,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 6.0,
                y + 4.0,
                grouped(value)
            )?;
        }

        for (layer, (class, _)) in self.layers.iter().enumerate() {
            write!(
                f,
                r#"<path class="{class}" d="{}"/>"#,
                self.outline(layer, highest)
            )?;
        }

        write!(
            f,
            r#"<text x="{LEFT}" y="{:.1}">{}</text>"#,
            base + 16.0,
            HtmlText(self.from)
        )?;
        write!(
            f,
            r#"<text x="{WIDTH}" y="{:.1}" text-anchor="end">{}</text>"#,
            base + 16.0,
            HtmlText(self.to)
        )?;
        f.write_str("</svg>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_stacked() {
        let (allowed, denied) = ([3, 0], [1, 2]);
        let layers = vec![("allowed", &allowed[..]), ("denied", &denied[..])];
        let plot = TimelinePlot {
            title: "a \"b\"".to_owned(),
            from: "<x>",
            to: "y",
            layers,
            is_stacked: true,
        };
        assert_eq!((plot.highest(), plot.bottom(1, 0)), (4, 3));
        let drawn = plot.to_string();
        assert!(
            drawn.contains(r#"aria-label="a &quot;b&quot;""#) && drawn.contains("&lt;x&gt;"),
            "{drawn}"
        );
        // The upper layer starts at the top of the plot.
        assert!(
            drawn.contains(r#"<path class="denied" d="M56.0 10.0L388.0 10.0"#),
            "{drawn}"
        );
        let side_by_side = TimelinePlot {
            is_stacked: false,
            ..plot
        };
        assert_eq!(side_by_side.highest(), 3);
    }

    #[test]
    fn an_empty_series_is_drawn_as_an_empty_path() {
        let plot = TimelinePlot {
            title: String::new(),
            from: "",
            to: "",
            layers: vec![("allowed", &[])],
            is_stacked: true,
        };
        assert!(plot.to_string().contains(r#"d="Z""#));
    }
}
