//! Ratios with targets: leased limits compared with the embedded store and with strict limits.

use serde::Serialize;

use super::case::Case;
use super::entrant::Load;
use super::report::Row;
use super::subjects::{CROWD, LEASED, MEMORY, STRICT};
use crate::stats::Spread;

/// Decisions per second of leased limits, relative to another subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) to: &'static str,
    pub(super) load: Load,
    /// The ratio of the medians.
    pub(super) value: f64,
    /// The lowest and the highest ratio of the rounds.
    pub(super) lowest: f64,
    pub(super) highest: f64,
    #[serde(rename = "asked")]
    pub(super) target: f64,
    pub(super) is_reached: bool,
}

/// The targets.
const ASKED: [(&str, f64); 2] = [(MEMORY, 0.5), (STRICT, 20.0)];

/// All ratios whose subjects were measured. Strict limits are fastest with many callers, whose
/// decisions share round trips.
pub(super) fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let leased = || {
        rows.iter()
            .filter(|row| row.case == Case::Hot && row.subject == LEASED)
    };
    let all = ASKED
        .into_iter()
        .flat_map(|(to, target)| leased().map(move |row| (to, target, row)));
    let ratio = |(to, target, row): (&'static str, f64, &Row)| {
        let load = if to == STRICT {
            Load::Callers(CROWD)
        } else {
            row.load
        };
        let base = rows
            .iter()
            .find(|base| (base.case, base.subject, base.load) == (row.case, to, load))?;
        let Spread { min, max, .. } = Spread::of(by_round(row, base).collect());
        let value = value(row, base);
        Some(Ratio {
            to,
            load: row.load,
            value,
            lowest: min,
            highest: max,
            target,
            is_reached: value >= target,
        })
    };
    all.filter_map(ratio).collect()
}

/// How many decisions one subject makes while the other makes one.
pub(super) fn value(row: &Row, base: &Row) -> f64 {
    row.median.decisions_per_s / base.median.decisions_per_s
}

fn by_round<'a>(row: &'a Row, base: &'a Row) -> impl Iterator<Item = f64> + 'a {
    row.rounds
        .iter()
        .zip(&base.rounds)
        .map(|(row, base)| row.decisions_per_s / base.decisions_per_s)
}

#[cfg(test)]
mod tests {
    use super::super::report::Round;
    use super::*;

    fn row(case: Case, subject: &'static str, load: Load, speeds: [f64; 3]) -> Row {
        let round = |decisions_per_s| Round {
            ns_per_decision: 1e9 / decisions_per_s,
            decisions_per_s,
            local: 1.0,
            calls_per_decision: 0.0,
            waited: 0.0,
        };
        Row::new(case, subject, load, speeds.map(round).to_vec())
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let (one, two) = (Load::Threads(1), Load::Threads(2));
        let rows = [
            row(Case::Hot, MEMORY, one, [200.0, 200.0, 400.0]),
            row(Case::Hot, LEASED, one, [100.0, 120.0, 80.0]),
            row(Case::Hot, LEASED, two, [90.0, 90.0, 90.0]),
            row(Case::Hot, STRICT, Load::Callers(1), [1.0, 1.0, 1.0]),
            row(Case::Hot, STRICT, Load::Callers(CROWD), [4.0, 5.0, 6.0]),
            row(Case::Denied, MEMORY, two, [90.0, 90.0, 90.0]),
        ];
        let ratios = ratios(&rows);
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (ratio.to, ratio.load, ratio.is_reached))
            .collect();
        assert_eq!(
            found,
            [
                (MEMORY, one, true),
                (STRICT, one, true),
                (STRICT, two, false)
            ]
        );
        let [first, ..] = &ratios[..] else {
            unreachable!("there are three")
        };
        let found = [first.value, first.lowest, first.highest].map(|ratio| format!("{ratio:.3}"));
        assert_eq!(found, ["0.500", "0.200", "0.600"]);
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        assert_eq!(ratios(&[]), []);
    }
}
