//! The ratios and tables of the benchmark.

use super::request::{Case, Protocol};
use super::{BARE, BARE_WITH_HEADERS, DASHBOARD, LEASED, MANY_LIMITS, MEMORY, REDIS, THROTTLECRAB};
use super::{bodies, oncall, resp, spread};
use crate::harness::h2load::{CPU, RATE};
use crate::harness::{Goal, P50, P99, Ratio, Report, Row, Table, distinct};

/// Adds the ratios and the tables.
pub(super) fn complete(mut report: Report) -> Report {
    report.ratios = ratios(&report.rows);
    for further in [resp::ratios, bodies::ratios, oncall::ratios] {
        let ratios = further(&report);
        report.ratios.extend(ratios);
    }
    let groups = distinct(report.rows.iter().map(|row| (&row.case, &row.load)));
    let tables = groups.into_iter().map(|(case, load)| match case.as_str() {
        spread::NAME => spread::table(&report),
        case => numbers(&report, case, load),
    });
    report.tables = tables.collect();
    report.notes = include_str!("notes.txt");
    report
}

/// Ratios of every build of Tollgate to all other subjects in the same case, and to the embedded
/// store for what should be about as fast: leased limits, the embedded store with many limits, and
/// with the dashboard open.
fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let ours = rows.iter().filter(|row| is_ours(&row.subject));
    ours.flat_map(|ours| {
        let is_compared = |theirs: &&Row| {
            (&ours.case, &ours.load) == (&theirs.case, &theirs.load)
                && is_compared(&ours.subject, &theirs.subject)
        };
        rows.iter()
            .filter(is_compared)
            .map(|theirs| Ratio::of_medians(RATE, ours, theirs, goal(ours, theirs)))
    })
    .collect()
}

fn is_ours(subject: &str) -> bool {
    ![BARE, BARE_WITH_HEADERS, THROTTLECRAB].contains(&subject)
}

fn is_compared(ours: &str, theirs: &str) -> bool {
    if is_ours(theirs) {
        theirs == MEMORY && [LEASED, MANY_LIMITS, DASHBOARD].contains(&ours)
    } else {
        ours != MANY_LIMITS
    }
}

/// The goal of a ratio, for requests with one limit.
fn goal(ours: &Row, theirs: &Row) -> Option<Goal> {
    let is_http = ours.case == Protocol::Http.name();
    let least = match (ours.subject.as_str(), theirs.subject.as_str()) {
        _ if ours.load == Case::ThreeLimits.name() => None,
        (MEMORY, BARE) => Some(0.85),
        (REDIS, BARE) if is_http => Some(0.54),
        (LEASED | MANY_LIMITS, MEMORY) if is_http => Some(0.9),
        _ => None,
    };
    least.map(Goal::AtLeast)
}

fn numbers(report: &Report, protocol: &str, case: &str) -> Table {
    let heads = [
        "subject",
        "requests/s",
        "slowest..fastest",
        "cpu us/request",
        "p50 us",
        "p99 us",
    ];
    let rows = report.case(protocol).filter(|row| row.load == case);
    Table::new(format!("{protocol}: {case}"), heads).with_lines(rows, |row| {
        vec![
            row.subject.clone(),
            row.count(RATE),
            row.counts(RATE),
            row.number(CPU, 1),
            row.number(P50, 0),
            row.number(P99, 0),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Figures, test_report};

    fn row(protocol: Protocol, subject: &str, rates: [f64; 3]) -> Row {
        let rounds = rates.map(|rate| Figures::from([(RATE, rate), (CPU, 9.5)]));
        let mut row = Row::new(
            protocol.name(),
            Case::Allowed.name(),
            subject,
            rounds.to_vec(),
        );
        row.add(Figures::from([(P50, 300.0), (P99, 900.0)]));
        row
    }

    #[test]
    fn the_table_shows_medians_and_what_was_missed() {
        let rows = vec![
            row(Protocol::Http, MEMORY, [80_000.0, 90_000.0, 100_000.0]),
            row(Protocol::Http, REDIS, [50_000.0, 51_000.0, 60_000.0]),
            row(Protocol::Http, BARE, [100_000.0, 100_000.0, 80_000.0]),
        ];
        let expected = "\
Example 9000, 2 cores, h2load 1
3 rounds of 1500 ms, medians

POST /v1/check over HTTP/1.1: 1 limit, allowed

subject           requests/s  slowest..fastest  cpu us/request  p50 us  p99 us
tollgate, memory      90,000   80,000..100,000             9.5     300     900
tollgate, Redis       51,000    50,000..60,000             9.5     300     900
bare                 100,000   80,000..100,000             9.5     300     900

Relative to other subjects (lowest and highest round)

                    to                          case              load          figure                       ratio         target
tollgate, memory  bare  POST /v1/check over HTTP/1.1  1 limit, allowed  requests_per_s         0.900x (0.80..1.25)  0.85x or more
tollgate, Redis   bare  POST /v1/check over HTTP/1.1  1 limit, allowed  requests_per_s  MISSED 0.510x (0.50..0.75)  0.54x or more

";
        let shown = complete(test_report(&["h2load 1"], 1_500, rows)).to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let rows = [
            row(Protocol::Http, MEMORY, [80.0, 90.0, 100.0]),
            row(Protocol::Http, REDIS, [50.0, 50.0, 60.0]),
            row(Protocol::Http, LEASED, [70.0, 72.0, 90.0]),
            row(Protocol::Http, DASHBOARD, [79.0, 89.0, 99.0]),
            row(Protocol::Http, BARE, [100.0, 100.0, 80.0]),
            row(Protocol::Grpc, BARE, [1.0, 1.0, 1.0]),
        ];
        let ratios = ratios(&rows);
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (ratio.ours.as_str(), ratio.goal, ratio.is_missed))
            .collect();
        let expected = [
            (MEMORY, Some(Goal::AtLeast(0.85)), false),
            (REDIS, Some(Goal::AtLeast(0.54)), true),
            (LEASED, Some(Goal::AtLeast(0.9)), true),
            (LEASED, None, false),
            (DASHBOARD, None, false),
            (DASHBOARD, None, false),
        ];
        assert_eq!(found, expected);
    }
}
