//! The tables of the benchmark.

use super::footprint::{
    BEST, BYTES, KEYS_KEPT, KEYS_MAX, NS_PER_KEY, OFFENDERS, PEAK, STILL_DENIED, WORST,
};
use super::timed::{NS, WAITED};
use super::{FLOOD, FOOTPRINT};
use crate::harness::{Report, Row, Table, distinct, or_dash};

/// The subject that others are compared with.
const REFERENCE: &str = "governor";

/// Adds the tables.
pub(super) fn complete(mut report: Report) -> Report {
    let waited = report.rows.iter().map(|row| row.spread(WAITED).max);
    report.waited = waited.fold(0.0, f64::max);

    let speed = |row: &Row| {
        let governor = report.row(&row.case, &row.load, REFERENCE);
        let ratio = governor.map(|governor| governor.median(NS) / row.median(NS));
        let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2}x)"));
        format!("{}{ratio}", row.number(NS, 0))
    };
    let title = "Nanoseconds per decision, median (and how many times as fast as governor with \
                 default settings)";
    let mut tables = vec![
        matrix(&report, title, speed),
        matrix(&report, "Fastest and slowest round", |row| row.range(NS, 0)),
    ];
    if let Some(first) = report.case(FOOTPRINT).next() {
        tables.push(footprints(&first.load, report.case(FOOTPRINT)));
    }
    if let Some(first) = report.case(FLOOD).next() {
        tables.push(floods(&first.load, report.case(FLOOD)));
    }
    report.tables = tables;
    report.notes = include_str!("notes.txt");
    report
}

/// A table with a line for each case and load, and a column for each subject.
fn matrix(report: &Report, title: &str, cell: impl Fn(&Row) -> String) -> Table {
    let rows = || report.rows.iter().filter(|row| !row.median(NS).is_nan());
    let subjects = distinct(rows().map(|row| row.subject.as_str()));
    let loads = distinct(rows().map(|row| (&row.case, &row.load)));
    let heads = ["case", "load"].into_iter().chain(subjects.iter().copied());
    Table::new(title, heads).with_lines(loads, |(case, load)| {
        let row = |subject: &&str| or_dash(report.row(case, load, subject).map(&cell));
        let mut line = vec![case.clone(), load.clone()];
        line.extend(subjects.iter().map(row));
        line
    })
}

fn footprints<'a>(keys: &str, rows: impl Iterator<Item = &'a Row>) -> Table {
    let title =
        format!("Bytes per key with {keys}, and the lowest and highest from half of them on");
    let heads = ["subject", "bytes per key", "lowest", "highest"];
    Table::new(title, heads).with_lines(rows, |row| {
        vec![
            row.subject.clone(),
            row.number(BYTES, 0),
            row.number(BEST, 0),
            row.number(WORST, 0),
        ]
    })
}

fn floods<'a>(keys: &str, rows: impl Iterator<Item = &'a Row>) -> Table {
    let heads = [
        "subject",
        "cap",
        "keys kept",
        "peak MB",
        "ns per key",
        "offenders still denied",
    ];
    let title = format!("A flood of {keys} that are used only once");
    Table::new(title, heads).with_lines(rows, |row| {
        let or = |figure, word: &str| match row.number(figure, 0) {
            unknown if unknown == "-" => word.to_owned(),
            number => number,
        };
        vec![
            row.subject.clone(),
            or(KEYS_MAX, "none"),
            or(KEYS_KEPT, "unknown"),
            format!("{:.0}", row.median(PEAK) / 1e6),
            row.number(NS_PER_KEY, 0),
            format!(
                "{} of {}",
                row.number(STILL_DENIED, 0),
                row.number(OFFENDERS, 0)
            ),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Figures, test_report};

    #[test]
    fn the_table_shows_medians_ratios_and_gaps() {
        let row = |subject, case, median: f64| {
            let rounds = [median + 9.0, median - 1.0, median]
                .map(|ns| Figures::from([(NS, ns), (WAITED, 0.01)]));
            Row::new(case, "1 thread", subject, rounds.to_vec())
        };
        let once = |case, load, subject, figures: &[(&'static str, f64)]| {
            Row::new(case, load, subject, vec![figures.iter().copied().collect()])
        };
        let flood = [
            (KEYS_MAX, 5.0),
            (PEAK, 7e6),
            (NS_PER_KEY, 99.6),
            (OFFENDERS, 3.0),
            (STILL_DENIED, 2.0),
        ];
        let footprint = [(BYTES, 84.0), (BEST, 60.4), (WORST, 90.0)];
        let rows = vec![
            row("tollgate", "hot", 50.0),
            row("governor", "hot", 120.0),
            row("governor-ahash", "hot", 100.0),
            row("tollgate", "uniform", 400.0),
            once(FOOTPRINT, "9 keys", "governor", &footprint),
            once(FLOOD, "10 keys", "tollgate", &flood),
        ];
        let report = test_report(&[], 250, rows);
        let expected = "\
Example 9000, 2 cores
3 rounds of 250 ms, medians

Nanoseconds per decision, median (and how many times as fast as governor with default settings)

case         load    tollgate     governor  governor-ahash
hot      1 thread  50 (2.40x)  120 (1.00x)     100 (1.20x)
uniform  1 thread         400            -               -

Fastest and slowest round

case         load  tollgate  governor  governor-ahash
hot      1 thread    49..59  119..129         99..109
uniform  1 thread  399..409         -               -

Bytes per key with 9 keys, and the lowest and highest from half of them on

subject   bytes per key  lowest  highest
governor             84      60       90

A flood of 10 keys that are used only once

subject   cap  keys kept  peak MB  ns per key  offenders still denied
tollgate    5    unknown        7         100                  2 of 3

";
        let shown = complete(report).to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }
}
