//! The ratios and tables of the benchmark.

use super::accuracy::{ADMITTED, BOUND, LIMIT};
use super::case::Case;
use super::{BURST, CROWD, LEASED, LOCAL, MEMORY, STRICT, WAITED};
use crate::harness::callers::{CALLS, NS, RATE};
use crate::harness::{Goal, Ratio, Report, Table, counted, or_dash};

/// What leased limits are compared with, and the goals.
const GOALS: [(&str, Goal); 2] = [(MEMORY, Goal::AtLeast(0.5)), (STRICT, Goal::AtLeast(20.0))];

/// Adds the ratios and the tables.
pub(super) fn complete(mut report: Report) -> Report {
    let waited = report.rows.iter().map(|row| row.median(WAITED));
    report.waited = waited.fold(0.0, f64::max);
    report.ratios = ratios(&report);

    let mut tables: Vec<Table> = Case::ALL.map(|case| numbers(&report, case)).into();
    if report.case(BURST).next().is_some() {
        tables.push(bursts(&report));
    }
    report.tables = tables;
    report.notes = include_str!("notes.txt");
    report
}

/// All ratios whose subjects were measured. Strict limits are fastest with many callers, whose
/// decisions share round trips.
fn ratios(report: &Report) -> Vec<Ratio> {
    let case = Case::Hot.to_string();
    let mut ratios = Vec::new();
    for (to, goal) in GOALS {
        for row in report.case(&case).filter(|row| row.subject == LEASED) {
            let crowd = counted(CROWD, "caller");
            let load = if to == STRICT { &crowd } else { &row.load };
            let base = report.row(&case, load, to);
            ratios.extend(base.map(|base| Ratio::of_medians(RATE, row, base, Some(goal))));
        }
    }
    ratios
}

fn numbers(report: &Report, case: Case) -> Table {
    let heads = [
        "subject",
        "load",
        "ns/decision",
        "fastest..slowest",
        "to memory",
        "local",
        "calls/decision",
    ];
    let title = format!("One key, {case}");
    Table::new(title, heads).with_lines(report.case(&case.to_string()), |row| {
        let memory = report.row(&row.case, &row.load, MEMORY);
        let to_memory = memory.map(|memory| row.median(RATE) / memory.median(RATE));
        vec![
            row.subject.clone(),
            row.load.clone(),
            row.number(NS, 1),
            row.range(NS, 1),
            or_dash(to_memory.map(|ratio| format!("{ratio:.2}x"))),
            row.percent(LOCAL, 4),
            row.number(CALLS, 7),
        ]
    })
}

fn bursts(report: &Report) -> Table {
    let title = "Two limiters that share a limit, under a burst of four times the limit";
    let heads = ["subject", "limit", "bound", "admitted in each run"];
    Table::new(title, heads).with_lines(report.case(BURST), |row| {
        let bound = row.median(BOUND);
        let is_exceeded = row.spread(ADMITTED).max > bound;
        let mark = if is_exceeded { "EXCEEDED " } else { "" };
        let runs = row.rounds.iter().map(|run| run[ADMITTED].to_string());
        vec![
            row.subject.clone(),
            LIMIT.to_string(),
            row.number(BOUND, 0),
            format!("{mark}{}", runs.collect::<Vec<_>>().join(" ")),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::super::TRYPEMA;
    use super::*;
    use crate::harness::{Figures, Row, test_report};

    fn row(case: Case, subject: &str, load: &str, rates: [f64; 3]) -> Row {
        let round = |rate| {
            Figures::from([
                (NS, 1e9 / rate),
                (RATE, rate),
                (LOCAL, 1.0),
                (CALLS, 0.000_002),
                (WAITED, 0.1),
            ])
        };
        Row::new(&case.to_string(), load, subject, rates.map(round).to_vec())
    }

    #[test]
    fn the_table_shows_what_was_missed_and_what_was_broken() {
        let row = |subject, ns: f64| {
            let rates = [ns, ns * 2.0, ns * 0.5].map(|ns| 1e9 / ns);
            row(Case::Hot, subject, "1 thread", rates)
        };
        let burst = |subject, bound: Option<f64>, admitted: [f64; 2]| {
            let rounds = admitted.map(|admitted| Figures::from([(ADMITTED, admitted)]));
            let mut row = Row::new(BURST, "2 limiters", subject, rounds.to_vec());
            row.add(bound.map(|bound| (BOUND, bound)).into_iter().collect());
            row
        };
        let rows = vec![
            row(MEMORY, 40.0),
            row(LEASED, 100.0),
            burst(STRICT, Some(1_000.0), [1_000.0, 999.0]),
            burst(LEASED, Some(1_000.0), [1_000.0, 1_001.0]),
            burst(TRYPEMA, None, [2_000.0, 2_000.0]),
        ];
        let expected = "\
Example 9000, 2 cores, Redis 7
3 rounds of 250 ms, medians
BUSY MACHINE: threads waited 10 % of their time for a core. Do not quote these numbers.

One key, hot

subject      load  ns/decision  fastest..slowest  to memory       local  calls/decision
memory   1 thread         40.0        20.0..80.0      1.00x  100.0000 %       0.0000020
leased   1 thread        100.0       50.0..200.0      0.40x  100.0000 %       0.0000020

One key, denied

subject  load  ns/decision  fastest..slowest  to memory  local  calls/decision

Two limiters that share a limit, under a burst of four times the limit

subject         limit  bound  admitted in each run
strict           1000   1000              1000 999
leased           1000   1000    EXCEEDED 1000 1001
trypema-hybrid   1000      -             2000 2000

Relative to other subjects (lowest and highest round)

            to  case      load           figure                       ratio        target
leased  memory   hot  1 thread  decisions_per_s  MISSED 0.400x (0.40..0.40)  0.5x or more

";
        let shown = complete(test_report(&["Redis 7"], 250, rows)).to_string();
        assert_eq!(shown.split_once("- memory,").unwrap().0, expected);
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let (one, two) = ("1 thread", "2 threads");
        let rows = vec![
            row(Case::Hot, MEMORY, one, [200.0, 200.0, 400.0]),
            row(Case::Hot, LEASED, one, [100.0, 120.0, 80.0]),
            row(Case::Hot, LEASED, two, [90.0, 90.0, 90.0]),
            row(Case::Hot, STRICT, "1 caller", [1.0, 1.0, 1.0]),
            row(Case::Hot, STRICT, "256 callers", [4.0, 5.0, 6.0]),
            row(Case::Denied, MEMORY, two, [90.0, 90.0, 90.0]),
        ];
        let ratios = ratios(&test_report(&[], 250, rows));
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (&*ratio.theirs, &*ratio.load, ratio.is_missed))
            .collect();
        assert_eq!(
            found,
            [
                (MEMORY, one, false),
                (STRICT, one, false),
                (STRICT, two, true)
            ]
        );
        assert!((ratios[0].value - 0.5).abs() < 1e-9, "{:?}", ratios[0]);
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        assert_eq!(ratios(&test_report(&[], 250, Vec::new())), []);
    }
}
