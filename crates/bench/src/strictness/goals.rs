//! The goals of the experiment beside what was measured. A goal that is missed does not fail the
//! experiment.

use super::cells::{Cell, Mode, Target};
use super::figures::IDLE_CALLS;
use crate::harness::{Goal, Report, Row, Table, number, or_dash};

/// A line for each figure of a leased cell that has a goal or is reported, with the other modes of
/// the same case. `None` if there is no such cell.
pub(super) fn table(cells: &[Cell], report: &Report) -> Option<Table> {
    let heads = [
        "case", "load", "figure", "goal", "leased", "strict", "local", "result", "idle/s",
    ];
    let leased = cells.iter().filter(|cell| cell.mode == Mode::Leased);
    let lines: Vec<_> = leased
        .flat_map(|cell| cell.targets.iter().map(move |target| (cell, target)))
        .filter_map(|(cell, target)| line(cell, target, report))
        .collect();

    let table = Table::new("Goals", heads);
    (!lines.is_empty()).then(|| table.with_lines(lines, |line| line))
}

fn line(cell: &Cell, target: &Target<'_>, report: &Report) -> Option<Vec<String>> {
    let (case, load) = (cell.name(), cell.load_text());
    let row = |mode: Mode| report.row(&case, &load, &mode.name());
    let value = |mode| row(mode).map_or(f64::NAN, |row| row.median(target.figure));
    let leased = row(Mode::Leased)?;

    let is_missed = |mode: &Mode| target.is_for(*mode) && target.is_missed(value(*mode));
    let is_missed = [Mode::Leased, Mode::Strict].iter().any(is_missed);
    let result = target
        .goal
        .map(|_| if is_missed { "missed" } else { "met" });

    let goal = or_dash(target.goal.map(|goal| goal.text("")));
    let mut line = vec![case.clone(), load.clone(), target.figure.to_owned(), goal];
    let modes = [Mode::Leased, Mode::Strict, Mode::Local];
    line.extend(modes.map(|mode| number(value(mode), digits(target))));
    line.extend([or_dash(result), leased.number(IDLE_CALLS, 0)]);
    Some(line)
}

/// Counts have no decimal places, shares have three.
fn digits(target: &Target<'_>) -> usize {
    let goal = target.goal.map_or(f64::NAN, Goal::value);
    if goal == 0.0 || goal >= 10.0 { 0 } else { 3 }
}

/// The goals that a cell missed.
pub(super) fn missed(cell: &Cell, row: &Row) -> impl Iterator<Item = String> {
    let missed = cell
        .targets
        .iter()
        .filter(|target| target.is_for(cell.mode) && target.is_missed(row.median(target.figure)));
    missed.map(move |target| {
        let (figure, found) = (target.figure, row.number(target.figure, digits(target)));
        let goal = or_dash(target.goal.map(|goal| goal.text("")));
        format!("missed: {cell}: {figure} {found}, goal {goal}")
    })
}

#[cfg(test)]
mod tests {
    use super::super::cells::{Case, tests::cell};
    use super::super::figures::tests::row_of;
    use super::*;
    use crate::harness::{Figures, test_report};

    const TARGETS: [Target<'static>; 3] = [
        Target {
            figure: "utilisation_lowest",
            goal: Some(Goal::AtLeast(0.97)),
            is_for_strict: true,
        },
        Target {
            figure: "calls_per_denied",
            goal: Some(Goal::AtMost(0.02)),
            is_for_strict: false,
        },
        Target {
            figure: "false_denials",
            goal: None,
            is_for_strict: false,
        },
    ];

    /// A cell with all of these targets, and its row if this number of requests was admitted.
    fn measured(mode: Mode, admitted: usize) -> (Cell, Row) {
        let cell = Cell {
            targets: &TARGETS,
            ..cell(Case::Cold, mode, 2, "1000-once")
        };
        let mut row = row_of(&cell, admitted);
        row.add(Figures::from([(IDLE_CALLS, 4.0)]));
        (cell, row)
    }

    #[test]
    fn goals_are_those_of_leases_unless_they_are_also_those_of_strict_limits() {
        let missed = |mode, admitted| {
            let (cell, row) = measured(mode, admitted);
            super::missed(&cell, &row).collect::<Vec<_>>()
        };
        let utilisation = "2 replicas, 3x: utilisation_lowest 0.900, goal 0.97 or more";
        for mode in [Mode::Leased, Mode::Strict] {
            let cell = format!("missed: cold 1000-once, {}", mode.name());
            assert_eq!(missed(mode, 900), [format!("{cell}, {utilisation}")]);
        }
        // 30 calls for 10 denials.
        let calls = "2 replicas, 3x: calls_per_denied 3.000, goal 0.02 or less";
        let cell = "missed: cold 1000-once, leased";
        assert_eq!(missed(Mode::Leased, 2_990), [format!("{cell}, {calls}")]);
        assert!(missed(Mode::Strict, 2_990).is_empty());
    }

    #[test]
    fn a_line_has_the_goal_beside_all_modes() {
        let (strict, strict_row) = measured(Mode::Strict, 960);
        let (leased, leased_row) = measured(Mode::Leased, 1_000);
        let report = test_report(&[], 0, vec![strict_row, leased_row]);
        let shown = table(&[strict, leased], &report).unwrap().to_string();
        let expected = "\
Goals

case                        load              figure          goal  leased  strict  local  result  idle/s
cold 1000-once  2 replicas at 3x  utilisation_lowest  0.97 or more   1.000   0.960      -  missed       4
cold 1000-once  2 replicas at 3x    calls_per_denied  0.02 or less   0.015   0.015      -     met       4
cold 1000-once  2 replicas at 3x       false_denials             -   0.000   0.000      -       -       4
";
        assert_eq!(shown, expected);
        assert!(table(&[strict], &report).is_none());
    }
}
