//! The rounds of a subject, and their statistics.

use std::collections::BTreeMap;

use serde::Serialize;

use super::text::{grouped, number, whole};

/// The figures of one round, by name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// The rounds of one subject in one case, under one load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) load: String,
    pub(crate) subject: String,
    figures: BTreeMap<&'static str, Spread>,
    pub(crate) rounds: Vec<Figures>,
}

/// The median, the minimum and the maximum of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Row {
    /// The statistics of these rounds, which all have the same figures.
    pub(crate) fn new(case: &str, load: &str, subject: &str, rounds: Vec<Figures>) -> Self {
        let names = rounds.first().map(|round| round.keys().copied());
        let spread = |name| {
            let values = rounds.iter().filter_map(|round| round.get(name).copied());
            (name, Spread::from_values(values))
        };

        Self {
            case: case.to_owned(),
            load: load.to_owned(),
            subject: subject.to_owned(),
            figures: names.into_iter().flatten().map(spread).collect(),
            rounds,
        }
    }

    /// Adds figures that were measured once, after the rounds.
    pub(crate) fn add(&mut self, once: Figures) {
        let spread = |(name, value)| (name, Spread::from_values([value]));
        self.figures.extend(once.into_iter().map(spread));
    }

    /// The statistics of a figure; not numbers if it was not measured.
    pub(crate) fn spread(&self, figure: &str) -> Spread {
        let found = self.figures.get(figure).copied();
        found.unwrap_or_else(|| Spread::from_values([]))
    }

    pub(crate) fn median(&self, figure: &str) -> f64 {
        self.spread(figure).median
    }

    /// The template with the names of the row in place of `{case}`, `{load}` and `{subject}`, and a
    /// figure in place of each `{figure:format}`. The format of the median is a number of decimal places,
    /// with a dash if the figure was not measured; nothing, for all of them; `,` for a whole number with
    /// separated thousands; `ms` for microseconds shown as milliseconds; or `%` and decimal places for a
    /// share in percent. After `..` it is that of the extremes.
    pub(crate) fn text(&self, template: &str) -> String {
        let parts = template.split(['{', '}']).enumerate();
        let text = parts.map(|(index, part)| match part {
            _ if index % 2 == 0 => part.to_owned(),
            "case" => self.case.clone(),
            "load" => self.load.clone(),
            "subject" => self.subject.clone(),
            _ => self.figure_text(part),
        });
        text.collect()
    }

    fn figure_text(&self, placeholder: &str) -> String {
        let (figure, format) = placeholder.split_once(':').unwrap_or((placeholder, ""));
        let Spread { median, min, max } = self.spread(figure);
        let shown = |value: f64| match format.trim_start_matches(['.', '%']) {
            "" => value.to_string(),
            "," => grouped(whole(value)),
            "ms" => number(value / 1e3, 1),
            digits => number(value, digits.parse().unwrap_or_default()),
        };
        match format.get(..1) {
            Some(".") => format!("{}..{}", shown(min), shown(max)),
            Some("%") if !median.is_nan() => shown(median * 100.0) + " %",
            _ => shown(median),
        }
    }
}

impl Spread {
    pub(crate) fn from_values(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);

        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self {
            median: f64::midpoint(at(last / 2), at(values.len() / 2)),
            min: at(0),
            max: at(last),
        }
    }
}

/// A count as a floating-point number.
#[expect(
    clippy::cast_precision_loss,
    reason = "nothing counted here reaches 2^53"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A count for each of some others; not a number if there are none.
pub(crate) fn per(count: u64, others: u64) -> f64 {
    if others == 0 {
        return f64::NAN;
    }
    float(count) / float(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let spread = Spread::from_values([5.0, 1.0, 9.0]);
        assert_eq!(
            spread,
            Spread {
                median: 5.0,
                min: 1.0,
                max: 9.0
            }
        );
        assert!((Spread::from_values([4.0, 1.0, 9.0, 2.0]).median - 3.0).abs() < 1e-9);
        assert!((Spread::from_values([4.0]).median - 4.0).abs() < 1e-9);
        assert!(Spread::from_values([]).median.is_nan());
    }

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        let rounds = [10.0, 11.0, 10.5, 9_000.0, 10.2].map(|ns| Figures::from([("ns", ns)]));
        let mut row = Row::new("hot", "1", "x", rounds.to_vec());
        assert_eq!(row.text("{subject}: {ns:1}, {ns:..0}"), "x: 10.5, 10..9000");
        assert_eq!(
            row.text("{ns:..,} {ns:%0} {p99:%0} {ns:}"),
            "10..9,000 1050 % - 10.5"
        );
        assert!(row.median("p99").is_nan());
        row.add(Figures::from([("p99", 7.0)]));
        assert_eq!(row.text("{p99:0} {p99:ms}"), "7 0.0");
    }
}
