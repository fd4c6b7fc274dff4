//! What was let through and refused over time, as SVG. Colours are the page's; no script is needed
//! to read it.

use std::fmt::{self, Write as _};

use super::escaped::Escaped;
use crate::text::grouped;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 10.0;
const FOOT: f64 = 24.0;

/// Layers of counts, one upon the other, over the same stretches of time.
#[derive(Clone, Debug)]
pub(super) struct Plot<'p> {
    /// What the picture shows, for those who cannot see it.
    pub(super) title: String,
    pub(super) from: &'p str,
    pub(super) to: &'p str,
    /// The lowest first, each with the class that gives it its colour.
    pub(super) layers: Vec<(&'static str, &'p [u64])>,
    /// Lines of their own instead of layers upon each other.
    pub(super) is_beside: bool,
}

impl Plot<'_> {
    fn stretches(&self) -> usize {
        self.layers
            .iter()
            .map(|(_, counts)| counts.len())
            .max()
            .unwrap_or_default()
    }

    /// What a layer begins on in a stretch.
    fn below(&self, layer: usize, at: usize) -> u64 {
        let lower = if self.is_beside { 0 } else { layer };
        self.layers[..lower]
            .iter()
            .map(|(_, counts)| count(counts, at))
            .sum()
    }

    /// The highest that any stretch reaches, at least 1.
    fn highest(&self) -> u64 {
        let tops = (0..self.stretches()).flat_map(|at| {
            (0..self.layers.len())
                .map(move |layer| self.below(layer, at) + count(self.layers[layer].1, at))
        });
        tops.max().unwrap_or_default().max(1)
    }

    /// The outline of a layer: along its top, and back along what it stands on.
    fn outline(&self, layer: usize, highest: u64) -> String {
        let stretches = self.stretches();
        let x = |at: usize| LEFT + (WIDTH - LEFT) * ratio(at as u64, stretches as u64);
        let y = |value: u64| TOP + HEIGHT * (1.0 - ratio(value, highest));
        let top = |at: usize| self.below(layer, at) + count(self.layers[layer].1, at);
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
        (0..stretches).for_each(|at| step(at, top(at)));
        for at in (0..stretches).rev() {
            let bottom = y(self.below(layer, at));
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

/// A part of a whole; plots need no more than floats can tell apart.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer points than a float has digits"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

impl fmt::Display for Plot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.highest();
        let (height, base) = (TOP + HEIGHT + FOOT, TOP + HEIGHT);
        write!(
            f,
            r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
            Escaped(&self.title)
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
            Escaped(self.from)
        )?;
        write!(
            f,
            r#"<text x="{WIDTH}" y="{:.1}" text-anchor="end">{}</text>"#,
            base + 16.0,
            Escaped(self.to)
        )?;
        f.write_str("</svg>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_stand_upon_each_other() {
        let (allowed, refused) = ([3, 0], [1, 2]);
        let layers = vec![("allowed", &allowed[..]), ("refused", &refused[..])];
        let plot = Plot {
            title: "a \"b\"".to_owned(),
            from: "<x>",
            to: "y",
            layers,
            is_beside: false,
        };
        assert_eq!((plot.highest(), plot.below(1, 0)), (4, 3));
        let drawn = plot.to_string();
        assert!(
            drawn.contains(r#"aria-label="a &quot;b&quot;""#) && drawn.contains("&lt;x&gt;"),
            "{drawn}"
        );
        // The upper layer begins at the very top, and ends where the lower one does.
        assert!(
            drawn.contains(r#"<path class="refused" d="M56.0 10.0L388.0 10.0"#),
            "{drawn}"
        );
        let beside = Plot {
            is_beside: true,
            ..plot
        };
        assert_eq!(beside.highest(), 3);
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let plot = Plot {
            title: String::new(),
            from: "",
            to: "",
            layers: vec![("allowed", &[])],
            is_beside: false,
        };
        assert!(plot.to_string().contains(r#"d="Z""#));
    }
}
