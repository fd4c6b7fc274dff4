//! One subject relative to another in the same rounds, perhaps with a goal.

use serde::{Deserialize, Serialize};

use super::row::{Row, Spread};
use super::text::{Table, or_dash};

/// A figure of one subject divided by that of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) case: String,
    pub(crate) load: String,
    pub(crate) figure: &'static str,
    pub(crate) ours: String,
    pub(crate) theirs: String,
    pub(crate) value: f64,
    /// The lowest and the highest ratio of the rounds.
    lowest: f64,
    highest: f64,
    #[serde(rename = "asked")]
    pub(crate) goal: Option<Goal>,
    pub(crate) is_missed: bool,
}

/// How the ratio of two subjects is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RatioOf {
    /// The ratio of the medians.
    Medians,
    /// The median of the ratios of the rounds.
    Rounds,
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Ratio {
    pub(crate) fn new(
        of: RatioOf,
        figure: &'static str,
        ours: &Row,
        theirs: &Row,
        goal: Option<Goal>,
    ) -> Self {
        let rounds = ours.rounds.iter().zip(&theirs.rounds);
        let ratios =
            rounds.filter_map(|(ours, theirs)| Some(ours.get(figure)? / theirs.get(figure)?));
        let rounds = Spread::from_values(ratios);
        let value = match of {
            RatioOf::Medians => ours.median(figure) / theirs.median(figure),
            RatioOf::Rounds => rounds.median,
        };

        Self {
            case: ours.case.clone(),
            load: ours.load.clone(),
            figure,
            ours: ours.subject.clone(),
            theirs: theirs.subject.clone(),
            value,
            lowest: rounds.min,
            highest: rounds.max,
            goal,
            is_missed: goal.is_some_and(|goal| goal.is_missed(value)),
        }
    }

    /// A table with a line for each ratio.
    pub(super) fn table(ratios: &[Self]) -> Table {
        let title = "Relative to other subjects (lowest and highest round)";
        let heads = ["", "to", "case", "load", "figure", "ratio", "target"];
        Table::new(title, heads).with_lines(ratios, |ratio| {
            vec![
                ratio.ours.clone(),
                ratio.theirs.clone(),
                ratio.case.clone(),
                ratio.load.clone(),
                ratio.figure.to_owned(),
                ratio.cell(),
                or_dash(ratio.goal.map(|goal| goal.text("x"))),
            ]
        })
    }

    fn cell(&self) -> String {
        let missed = if self.is_missed { "MISSED " } else { "" };
        let (value, lowest, highest) = (self.value, self.lowest, self.highest);
        format!("{missed}{value:.3}x ({lowest:.2}..{highest:.2})")
    }
}

impl Goal {
    /// Whether a value misses the goal. What was not measured misses nothing.
    pub(crate) fn is_missed(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value < least,
            Self::AtMost(most) => value > most,
        }
    }

    pub(crate) const fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => value,
        }
    }

    /// The goal with the unit of its value.
    pub(crate) fn text(self, unit: &str) -> String {
        let direction = match self {
            Self::AtLeast(_) => "more",
            Self::AtMost(_) => "less",
        };
        format!("{}{unit} or {direction}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Figures;
    use super::*;

    fn row(subject: &str, rates: [f64; 3]) -> Row {
        let rounds = rates.map(|rate| Figures::from([("rate", rate)])).to_vec();
        Row::new("hot", "1 thread", subject, rounds)
    }

    #[test]
    fn rounds_are_compared_with_rounds() {
        let (ours, theirs) = (
            row("a", [80.0, 90.0, 100.0]),
            row("b", [100.0, 100.0, 80.0]),
        );
        let cell = |of, ours, theirs| Ratio::new(of, "rate", ours, theirs, None).cell();
        assert_eq!(
            cell(RatioOf::Medians, &ours, &theirs),
            "0.900x (0.80..1.25)"
        );
        let (ours, theirs) = (row("a", [10.0, 60.0, 90.0]), row("b", [100.0, 50.0, 100.0]));
        assert_eq!(
            cell(RatioOf::Medians, &ours, &theirs),
            "0.600x (0.10..1.20)"
        );
        assert_eq!(cell(RatioOf::Rounds, &ours, &theirs), "0.900x (0.10..1.20)");
    }

    #[test]
    fn goals_can_be_missed_in_either_direction() {
        let (ours, theirs) = (row("a", [9.0; 3]), row("b", [10.0; 3]));
        let ratio = |goal| Ratio::new(RatioOf::Medians, "rate", &ours, &theirs, Some(goal));
        assert!(ratio(Goal::AtLeast(0.91)).is_missed && !ratio(Goal::AtLeast(0.9)).is_missed);
        assert!(ratio(Goal::AtMost(0.89)).is_missed && !ratio(Goal::AtMost(0.9)).is_missed);
        let expected = "\
Relative to other subjects (lowest and highest round)

   to  case      load  figure                       ratio         target
a   b   hot  1 thread    rate  MISSED 0.900x (0.90..0.90)  0.95x or more
a   b   hot  1 thread    rate         0.900x (0.90..0.90)     1x or less
";
        let ratios = [Goal::AtLeast(0.95), Goal::AtMost(1.0)].map(ratio);
        assert_eq!(Ratio::table(&ratios).to_string(), expected);
    }
}
