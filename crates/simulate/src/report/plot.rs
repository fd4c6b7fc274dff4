//! Plots counts over time as SVG, with labels in HTML: at round times, and few enough for a small
//! screen. The colors come from the style sheet of the page.

use askama::Template;
use tollgate::Micros;

use crate::text::{self, utc};

/// The size of the drawing. The page stretches it, and puts the labels around it, so that they are
/// readable at any width.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;

/// An area chart of one or more series of counts over the same steps.
#[derive(Clone, Debug, Template)]
#[template(path = "plot.svg")]
pub(super) struct TimelinePlot<'p> {
    /// The description for screen readers.
    pub(super) title: String,
    /// The start of the first step, in seconds since 1970.
    pub(super) from: u64,
    /// The length of a step in seconds.
    pub(super) step_seconds: u64,
    /// The series, bottom first, each with its CSS class.
    pub(super) layers: Vec<(&'static str, &'p [u64])>,
    /// Whether the series are stacked on each other. If not, all of them start at zero.
    pub(super) is_stacked: bool,
}

impl TimelinePlot<'_> {
    fn steps(&self) -> usize {
        let lengths = self.layers.iter().map(|(_, counts)| counts.len());
        lengths.max().unwrap_or_default()
    }

    /// The lower edge of a layer in a step.
    fn bottom(&self, layer: usize, at: usize) -> u64 {
        let lower = if self.is_stacked { layer } else { 0 };
        (0..lower).map(|layer| self.count(layer, at)).sum()
    }

    /// The upper edge of a layer in a step.
    fn top(&self, layer: usize, at: usize) -> u64 {
        self.bottom(layer, at) + self.count(layer, at)
    }

    fn count(&self, layer: usize, at: usize) -> u64 {
        self.layers[layer].1.get(at).copied().unwrap_or_default()
    }

    /// The highest value of any step, at least 1.
    fn highest(&self) -> u64 {
        let layers = 0..self.layers.len();
        let tops = layers.flat_map(|layer| (0..self.steps()).map(move |at| self.top(layer, at)));
        tops.max().unwrap_or_default().max(1)
    }

    /// The labels of the time axis.
    fn ticks(&self) -> Vec<TimeTick> {
        time_ticks(self.from, self.step_seconds * self.steps() as u64)
    }

    /// The x coordinate of a label.
    fn tick_x(tick: &TimeTick) -> f64 {
        WIDTH * tick.percent / 100.0
    }

    /// The SVG path of a layer: along its upper edge, and back along its lower edge.
    fn outline(&self, layer: usize, highest: u64) -> String {
        let steps = self.steps();
        if steps == 0 {
            return "Z".to_owned();
        }

        let point = |at: usize, value: u64| {
            let x = WIDTH * ratio(at as u64, steps as u64);
            let y = HEIGHT * (1.0 - ratio(value, highest));
            format!("{x:.1} {y:.1}")
        };
        let upper = (0..steps).flat_map(|at| [at, at + 1].map(|x| point(x, self.top(layer, at))));
        let lower = (0..steps).rev();
        let lower = lower.flat_map(|at| [at + 1, at].map(|x| point(x, self.bottom(layer, at))));

        let points: Vec<String> = upper.chain(lower).collect();
        format!("M{}Z", points.join("L"))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a plot needs less precision than a float has"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The most labels of an axis.
const TICKS_MAX: u64 = 6;
/// The distances between labels, in seconds.
const DISTANCES: [u64; 15] = [
    1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_419_200,
];
const DAY: u64 = 86_400;

/// A label of a time axis.
#[derive(Clone, Debug, PartialEq)]
struct TimeTick {
    /// Where it is, in percent of the axis.
    percent: f64,
    text: String,
}

/// The labels of an axis from `from` on, `secs` long. Both are in seconds, `from` since 1970.
fn time_ticks(from: u64, secs: u64) -> Vec<TimeTick> {
    let fits = |distance: &&u64| secs / **distance <= TICKS_MAX;
    let longest = DISTANCES[DISTANCES.len() - 1];
    let distance = DISTANCES.iter().find(fits).copied();
    // Logs of years get a label every few months.
    let distance = distance.unwrap_or_else(|| longest * (secs / longest / TICKS_MAX + 1));

    let first = from.div_ceil(distance) * distance;
    let times = (0..=TICKS_MAX).map(|tick| first + tick * distance);
    times
        .take_while(|time| *time <= from + secs)
        .map(|time| TimeTick {
            percent: 100.0 * ratio(time - from, secs.max(1)),
            text: label(time, distance, secs),
        })
        .collect()
}

/// The time of a label: with seconds if labels are closer than a minute, with the day if the axis
/// is longer than one.
fn label(time: u64, distance: u64, secs: u64) -> String {
    let utc = utc(Micros::from_secs(time));
    let part = |range: std::ops::Range<usize>| utc.get(range).unwrap_or_default();
    let clock = if distance < 60 {
        part(11..19)
    } else {
        part(11..16)
    };

    if distance >= DAY {
        part(0..10).to_owned()
    } else if secs > DAY {
        format!("{} {clock}", part(5..10))
    } else {
        clock.to_owned()
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
            from: 1_791_665_736,
            step_seconds: 60,
            layers,
            is_stacked: true,
        };
        assert_eq!((plot.highest(), plot.bottom(1, 0)), (4, 3));
        let drawn = plot.to_string();
        assert!(
            drawn.contains(r#"aria-label="a &quot;b&quot;""#) && drawn.contains("20:56"),
            "{drawn}"
        );
        // The upper layer starts at the top of the plot.
        assert!(
            drawn.contains(r#"<path class="denied" d="M0.0 0.0L360.0 0.0"#),
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
            from: 0,
            step_seconds: 1,
            layers: vec![("allowed", &[])],
            is_stacked: true,
        };
        assert!(plot.to_string().contains(r#"d="Z""#));
    }

    /// 2026-10-10T20:55:36Z.
    const FROM: u64 = 1_791_665_736;

    fn texts(secs: u64) -> Vec<String> {
        let ticks = time_ticks(FROM, secs);
        assert!(ticks.len() <= 7, "{secs}: {ticks:?}");
        let is_inside = |tick: &TimeTick| (0.0..=100.0).contains(&tick.percent);
        assert!(ticks.iter().all(is_inside), "{secs}: {ticks:?}");
        ticks.into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn labels_are_at_round_times() {
        assert_eq!(texts(3), ["20:55:36", "20:55:37", "20:55:38", "20:55:39"]);
        assert_eq!(texts(120), ["20:56:00", "20:56:30", "20:57:00", "20:57:30"]);
        assert_eq!(texts(7_200), ["21:00", "21:30", "22:00", "22:30"]);
        assert_eq!(texts(86_400), ["00:00", "06:00", "12:00", "18:00"],);
        assert_eq!(
            texts(2 * 86_400),
            ["10-11 00:00", "10-11 12:00", "10-12 00:00", "10-12 12:00"]
        );
        assert_eq!(texts(3 * 86_400 * 2)[0], "2026-10-11");
    }

    #[test]
    fn any_length_has_few_labels() {
        for exponent in 0..33 {
            assert!(!texts(1 << exponent).is_empty(), "2^{exponent} s");
        }
        assert!(texts(0).len() <= 1);
    }
}
