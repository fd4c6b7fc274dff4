//! The ratios and tables of the benchmark.

use clap::ValueEnum as _;

use super::calls::{ADDED, NS};
use super::subject::{Case, Subject};
use super::{CALLS, SERVERS};
use crate::harness::h2load::{self, CPU, RATE};
use crate::harness::{Goal, Ratio, Report, Table, distinct};

/// Layers without header fields are compared with each other, those with fields too, and both with
/// their default settings.
const PAIRS: [(Subject, Subject); 3] = [
    (Subject::Memory, Subject::Governor),
    (Subject::Memory, Subject::GovernorTelling),
    (Subject::MemorySilent, Subject::Governor),
];

/// Adds the ratios and the tables.
pub(super) fn complete(mut report: Report) -> Report {
    let cases = distinct(report.rows.iter().map(|row| row.load.clone()));
    report.ratios = cases
        .iter()
        .flat_map(|case| ratios(&report, case))
        .collect();
    let tables = cases
        .iter()
        .flat_map(|case| [servers(&report, case), calls(&report, case)]);
    report.tables = tables.collect();
    report.notes = include_str!("notes.txt");
    report
}

/// All servers to the bare one, and the layers to each other: as servers, and without the call
/// itself.
fn ratios(report: &Report, case: &str) -> Vec<Ratio> {
    let ratio = |place, figure, (ours, theirs): (Subject, Subject)| {
        let goal = goal(case, figure, ours, theirs);
        let pair = [(ours.name(), theirs.name(), goal)];
        report.ratios(Ratio::of_rounds, figure, (place, case), pair)
    };
    let subjects = Subject::value_variants().iter().copied();
    let others = subjects.filter(|subject| *subject != Subject::Bare);
    let pairs = others.map(|subject| (subject, Subject::Bare)).chain(PAIRS);

    let of_servers = pairs.flat_map(|pair| [RATE, CPU].map(|figure| ratio(SERVERS, figure, pair)));
    let of_calls = PAIRS.map(|pair| ratio(CALLS, ADDED, pair));
    of_servers.chain(of_calls).flatten().collect()
}

/// A layer may cost a twentieth of a bare server's requests, and less than the other layer that
/// sends the same.
fn goal(case: &str, figure: &str, ours: Subject, theirs: Subject) -> Option<Goal> {
    use Subject::{Bare, Governor, GovernorTelling, Memory, MemorySilent};
    match (figure, ours, theirs) {
        _ if case != Case::Allowed.name() => None,
        (RATE, Memory, Bare) => Some(Goal::AtLeast(0.95)),
        (ADDED, Memory, GovernorTelling) | (ADDED, MemorySilent, Governor) => {
            Some(Goal::AtMost(1.0))
        }
        _ => None,
    }
}

fn servers(report: &Report, case: &str) -> Table {
    let rows = report.case(SERVERS).filter(|row| row.load == case);
    h2load::table(&format!("{SERVERS}, {case}"), rows)
}

fn calls(report: &Report, case: &str) -> Table {
    let heads = ["subject", "ns/call", "fastest..slowest", "added ns"];
    let rows = report.case(CALLS).filter(|row| row.load == case);
    Table::new(format!("{CALLS}, {case}"), heads).with_lines(rows, |row| {
        vec![
            row.subject.clone(),
            row.number(NS, 0),
            row.range(NS, 0),
            row.number(ADDED, 0),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::super::add_difference;
    use super::*;
    use crate::harness::{Figures, Row, test_report};

    fn report() -> Report {
        let case = Case::Allowed.name();
        let server = |subject: Subject, rates: [f64; 3]| {
            let rounds = rates.map(|rate| Figures::from([(RATE, rate), (CPU, 500_000.0 / rate)]));
            Row::new(SERVERS, case, subject.name(), rounds.to_vec())
        };
        let calls = |subject: Subject, ns: [f64; 3]| {
            let rounds = ns.map(|ns| Figures::from([(NS, ns)]));
            Row::new(CALLS, case, subject.name(), rounds.to_vec())
        };
        let mut rows = vec![
            server(Subject::Bare, [50_000.0, 60_000.0, 40_000.0]),
            server(Subject::Memory, [45_000.0, 58_000.0, 39_000.0]),
        ];
        let mut called = [
            calls(Subject::Bare, [100.0, 110.0, 90.0]),
            calls(Subject::Memory, [200.0, 210.0, 195.0]),
            calls(Subject::GovernorTelling, [300.0, 310.0, 200.0]),
        ];
        add_difference(&mut called);
        rows.extend(called);
        test_report(&["h2load 1"], 1_500, rows)
    }

    #[test]
    fn the_table_shows_medians_and_what_was_asked() {
        let expected = "\
Example 9000, 2 cores, h2load 1
3 rounds of 1500 ms, medians

GET / over HTTP/1.1, all allowed

subject    requests/s  slowest..fastest  cpu us/request
bare axum      50,000    40,000..60,000            10.0
tollgate       45,000    39,000..58,000            11.1

Calls in one process, one thread, all allowed

subject                 ns/call  fastest..slowest  added ns
bare axum                   100           90..110         0
tollgate                    200          195..210       100
tower_governor, fields      300          200..310       200

Relative to other subjects (lowest and highest round)

                              to                              case         load          figure                ratio         target
tollgate               bare axum               GET / over HTTP/1.1  all allowed  requests_per_s  0.967x (0.90..0.97)  0.95x or more
tollgate               bare axum               GET / over HTTP/1.1  all allowed          cpu_us  1.034x (1.03..1.11)              -
tollgate  tower_governor, fields  Calls in one process, one thread  all allowed        added_ns  0.500x (0.50..0.95)     1x or less

";
        let shown = complete(report()).to_string();
        assert_eq!(shown.split_once("- bare axum:").unwrap().0, expected);
    }

    #[test]
    fn goals_are_those_of_allowed_requests() {
        use Subject::{Bare, GovernorTelling, Memory};
        let [allowed, denied] = [Case::Allowed, Case::Denied].map(Case::name);
        let goal = |case, figure, theirs| goal(case, figure, Memory, theirs);
        assert_eq!(goal(allowed, RATE, Bare), Some(Goal::AtLeast(0.95)));
        assert_eq!(
            goal(allowed, ADDED, GovernorTelling),
            Some(Goal::AtMost(1.0))
        );
        assert_eq!(goal(denied, ADDED, GovernorTelling), None);
    }
}
