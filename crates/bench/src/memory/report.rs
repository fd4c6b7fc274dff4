//! The tables of the benchmark.

use super::timed::NS;
use super::{FLOOD, FOOTPRINT};
use crate::harness::prelude::*;

/// The subject that others are compared with.
const REFERENCE: &str = "governor";

/// Adds the tables and the picture.
pub(super) fn complete(report: &mut Report) {
    let waited = report.rows.iter().map(|row| row.spread("waited").max);
    report.waited = waited.fold(0.0, f64::max);

    let speed = |row: &Row| {
        let governor = report.row(&row.case, &row.load, REFERENCE);
        let ratio = governor.map(|governor| governor.median(NS) / row.median(NS));
        let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2}x)"));
        row.text("{ns_per_op:0}") + &ratio
    };
    let title = "Nanoseconds per decision, median (and how many times as fast as governor with \
                 default settings)";
    let range = |row: &Row| row.text("{ns_per_op:..0}");
    let mut tables = vec![
        matrix(report, title, speed),
        matrix(report, "Fastest and slowest round", range),
    ];
    let footprint = report.case(FOOTPRINT).next();
    tables.extend(footprint.map(|row| footprints(report, &row.load)));
    let flood = report.case(FLOOD).next();
    tables.extend(flood.map(|row| floods(report, &row.load)));
    report.tables = tables;
    report.notes = include_str!("notes.txt");
    let panel = ("Nanoseconds per decision: shorter is better", NS);
    report.draw("Nanoseconds per decision, in one process", &[panel]);
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

fn footprints(report: &Report, keys: &str) -> Table {
    let title =
        format!("Bytes per key with {keys}, and the lowest and highest from half of them on");
    let columns = [
        ("subject", "{subject}"),
        ("bytes per key", "{bytes_per_key:0}"),
        ("lowest", "{best:0}"),
        ("highest", "{worst:0}"),
    ];
    Table::from_rows(title, report.case(FOOTPRINT), &columns)
}

fn floods(report: &Report, keys: &str) -> Table {
    let heads = [
        "subject",
        "cap",
        "keys kept",
        "peak MB",
        "ns per key",
        "offenders still denied",
    ];
    let title = format!("A flood of {keys} that are used only once");
    Table::new(title, heads).with_lines(report.case(FLOOD), |row| {
        let or = |template, word| row.text(template).replace('-', word);
        vec![
            row.subject.clone(),
            or("{keys_max:0}", "none"),
            or("{keys_kept:0}", "unknown"),
            format!("{:.0}", row.median("peak_bytes") / 1e6),
            row.text("{ns_per_insert:0}"),
            row.text("{offenders_still_denied:0} of {offenders:0}"),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_medians_ratios_and_gaps() {
        let row = |subject, case, median: f64| {
            let rounds = [median + 9.0, median - 1.0, median]
                .map(|ns| Figures::from([(NS, ns), ("waited", 0.01)]));
            Row::new(case, "1 thread", subject, rounds.to_vec())
        };
        let once = |case, load, subject, figures: &[(&'static str, f64)]| {
            Row::new(case, load, subject, vec![figures.iter().copied().collect()])
        };
        let flood = [
            ("keys_max", 5.0),
            ("peak_bytes", 7e6),
            ("ns_per_insert", 99.6),
            ("offenders", 3.0),
            ("offenders_still_denied", 2.0),
        ];
        let footprint = [("bytes_per_key", 84.0), ("best", 60.4), ("worst", 90.0)];
        let rows = vec![
            row("tollgate", "hot", 50.0),
            row("governor", "hot", 120.0),
            row("governor-ahash", "hot", 100.0),
            row("tollgate", "uniform", 400.0),
            once(FOOTPRINT, "9 keys", "governor", &footprint),
            once(FLOOD, "10 keys", "tollgate", &flood),
        ];
        let mut report = test_report(&[], 250, rows);
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
        complete(&mut report);
        let shown = report.to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }
}
