//! The table, the picture and the remarks of the experiment.

use super::cells::{Case, Cell, Mode};
use super::figures::{
    ADMITTED, BOUND, CALLS_PER_ADMITTED, CALLS_PER_DENIED, CALLS_PER_REQUEST, CALLS_PER_S, DENIED,
    ERRORS, FALLBACK, IS_EXCEEDED, LATE, LOAD, LOCAL_SHARE, OFFERED, OVER, P999, REPLICAS,
    SENT_LATE,
};
use super::goals;
use super::ideal::{UNITS, UTILISATION};
use super::retry::{KEPT, RETRIES};
use crate::harness::{
    Bar, P50, P99, Panel, Picture, Report, Row, Table, counted, number, or_dash, whole, word,
};

/// A load that is sent later than this is lower than nominal.
const LATE_US: f64 = 100_000.0;

/// Adds the tables and the remarks about all cells.
pub(super) fn complete(mut report: Report, cells: &[Cell]) -> Report {
    let judged = report.rows.iter().filter(|row| row.median(BOUND) >= 0.0);
    let (judged, exceeded) = (judged.count(), exceeded(&report));
    let within = judged - exceeded;

    report.remarks.extend(lateness(&report.rows));
    report.remarks.push(format!(
        "{within} of {judged} cells stayed within their bound"
    ));
    report.tables = vec![table(&report.rows)];
    report.tables.extend(goals::table(cells, &report));
    report.notes = include_str!("notes.txt");
    report
}

/// The number of cells in which more was admitted than the bound allows.
pub(super) fn exceeded(report: &Report) -> usize {
    let rows = report.rows.iter();
    rows.filter(|row| row.median(IS_EXCEEDED) > 0.0).count()
}

/// What is wrong in a cell: an excess, a missed goal, wrong retry times.
pub(super) fn remarks(cell: &Cell, row: &Row) -> Vec<String> {
    let mut remarks = Vec::new();
    if row.median(IS_EXCEEDED) > 0.0 {
        let (over, bound) = (row.number(OVER, 1), row.number(BOUND, 0));
        remarks.push(format!("EXCEEDED: {cell}: over by {over}, bound {bound}"));
    }

    remarks.extend(goals::missed(cell, row));

    let (kept, retries) = (row.median(KEPT), row.median(RETRIES));
    if kept < retries {
        let denied = retries - kept;
        remarks.push(format!(
            "missed: {cell}: {denied} of {retries} retries were denied"
        ));
    }
    remarks
}

/// A remark if loads were late. In the cold case all requests are due at the same time, so some are
/// always late.
fn lateness(rows: &[Row]) -> Option<String> {
    let cold = word(&Case::Cold);
    let is_late = |row: &&Row| row.median(SENT_LATE) > LATE_US && !row.case.starts_with(&cold);
    let late: Vec<&Row> = rows.iter().filter(is_late).collect();

    let latest = late
        .iter()
        .max_by(|a, b| a.median(SENT_LATE).total_cmp(&b.median(SENT_LATE)))?;
    Some(format!(
        "In {} the machine could not keep up with the load: {} ms late in {}, {}, {}",
        counted(late.len(), "cell"),
        ms(latest, SENT_LATE),
        latest.case,
        latest.subject,
        latest.load
    ))
}

fn table(rows: &[Row]) -> Table {
    let heads = [
        "case",
        "mode",
        "N",
        "load",
        "offered",
        "admitted",
        "central",
        "denied",
        "fallback",
        "late",
        "errors",
        "over",
        "bound",
        "used",
        "calls/request",
        "/admitted",
        "/denied",
        "p50  p99  p99.9 ms",
        "local",
        "retry ok",
    ];
    let title = "What replicas admit together, compared with what the limit allows";
    Table::new(title, heads).with_lines(rows, |row| {
        let mut line = vec![
            row.case.clone(),
            row.subject.clone(),
            row.number(REPLICAS, 0),
            format!("{}x", row.median(LOAD)),
        ];
        let counts = [OFFERED, ADMITTED, UNITS, DENIED, FALLBACK];
        line.extend(counts.map(|figure| row.count(figure)));
        line.extend([row.number(LATE, 0), row.count(ERRORS)]);

        let is_exceeded = row.median(IS_EXCEEDED) > 0.0;
        let mark = if is_exceeded { "EXCEEDED " } else { "" };
        line.extend([
            format!("{mark}{}", row.number(OVER, 1)),
            row.number(BOUND, 0),
        ]);
        line.push(row.number(UTILISATION, 3));
        let calls = [CALLS_PER_REQUEST, CALLS_PER_ADMITTED, CALLS_PER_DENIED];
        line.extend(calls.map(|figure| row.number(figure, 4)));

        line.push([P50, P99, P999].map(|figure| ms(row, figure)).join("  "));
        line.push(row.percent(LOCAL_SHARE, 0));
        let retries = [KEPT, RETRIES].map(|figure| row.number(figure, 0));
        let has_retries = row.median(RETRIES) > 0.0;
        line.push(or_dash(has_retries.then(|| retries.join(" of "))));
        line
    })
}

/// One line for a cell, shown as soon as it is measured.
pub(super) fn summary(row: &Row) -> String {
    format!(
        "over by {}, bound {}, used {}, p99 {} ms",
        row.number(OVER, 1),
        row.number(BOUND, 0),
        row.number(UTILISATION, 3),
        ms(row, P99)
    )
}

/// A figure in microseconds as milliseconds.
fn ms(row: &Row, figure: &str) -> String {
    number(row.median(figure) / 1e3, 1)
}

/// The figures that matter when choosing a mode, of the cells on one server.
pub(super) fn picture(report: &Report) -> Picture {
    let grid = || report.case("grid 1000-per-s");
    let at = |load: f64| grid().filter(move |row| row.median(LOAD).total_cmp(&load).is_eq());
    let highest = grid().map(|row| row.median(LOAD)).fold(0.0, f64::max);
    let double = at(2.0).next().map_or(highest, |_| 2.0);

    let over = "Units over a limit of 1,000";
    let panels = [
        (
            format!("{over}, a cold key used by all replicas at once"),
            bars(report.case("cold 1000-once"), OVER),
        ),
        (
            format!("{over}/s at {highest} times the load, worst of all intervals"),
            bars(at(highest), OVER),
        ),
        (
            format!("Utilisation relative to an ideal limiter, at {double} times the load"),
            bars(at(double), UTILISATION),
        ),
        (
            format!("Store calls per request, at {highest} times the load"),
            bars(at(highest), CALLS_PER_REQUEST),
        ),
        (
            "Store calls per request, 1,000 requests/s on a key that is never denied".to_owned(),
            bars(report.case("plenty 20000-per-s"), CALLS_PER_REQUEST),
        ),
        (
            "Store calls per second, 1,000 requests/s on a key with a limit of 10/s".to_owned(),
            bars(report.case("denied 10-per-s"), CALLS_PER_S),
        ),
    ];
    let panels = panels.map(|(title, bars)| Panel { title, bars });
    report.picture_of(
        "Replicas that share a limit: what they admit together",
        "Real processes over one Redis, grouped by number of replicas; they share the machine with \
         the load generator.",
        panels.into_iter().filter(|panel| !panel.bars.is_empty()),
    )
}

/// A bar for each mode and number of replicas. An excess is shown with the bound of `eventual`;
/// other figures say nothing about replicas that count separately.
fn bars<'a>(rows: impl Iterator<Item = &'a Row>, figure: &'static str) -> Vec<Bar> {
    let (eventual, local) = (Mode::Eventual.name(), Mode::Local.name());
    let bars = rows.flat_map(|row| {
        let is_shown = figure == OVER || row.subject != local;
        let is_bounded = figure == OVER && row.subject == eventual;
        let own = is_shown.then(|| (row.subject.clone(), figure));
        let bound = is_bounded.then(|| ("bound of eventual".to_owned(), BOUND));
        own.into_iter().chain(bound).map(|(series, figure)| Bar {
            label: counted(whole(row.median(REPLICAS)), "replica"),
            series,
            value: row.median(figure),
        })
    });
    bars.filter(|bar| !bar.value.is_nan()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::cell;
    use super::super::figures::tests::{row, row_of};
    use super::*;
    use crate::harness::{Figures, test_report};

    #[test]
    fn the_table_shows_figures_and_judgements() {
        let rows = vec![
            row(Mode::Strict, 2, 1_000),
            row(Mode::Leased, 16, 1_002),
            row(Mode::Local, 2, 2_000),
        ];
        let mut report = test_report(&[], 0, rows);
        report.remarks = vec!["skew: skipped: rain".to_owned()];
        let shown = complete(report, &[]).to_string();
        let expected = "\
Example 9000, 2 cores
3 rounds, medians

What replicas admit together, compared with what the limit allows

case                     mode   N  load  offered  admitted  central  denied  fallback  late  errors          over  bound   used  calls/request  /admitted  /denied  p50  p99  p99.9 ms  local  retry ok
cold 1000-once         strict   2    3x    3,000     1,000    1,000   2,000         0     -       0           0.0      0  1.000         0.0100     0.0300   0.0150       0.5  0.5  0.5   50 %    1 of 2
cold 1000-once         leased  16    3x    3,000     1,002    1,000   1,998         0     -       0  EXCEEDED 2.0      0  1.002         0.0100     0.0299   0.0150       0.5  0.5  0.5   50 %    1 of 2
cold 1000-once  local (wrong)   2    3x    3,000     2,000    1,000   1,000         0     -       0        1000.0      -  2.000         0.0100     0.0150   0.0300       0.5  0.5  0.5   50 %    1 of 2

- skew: skipped: rain.
- 1 of 2 cells stayed within their bound.
- Replicas are processes";
        assert_eq!(&shown[..expected.len().min(shown.len())], expected);
    }

    #[test]
    fn a_late_load_is_reported() {
        let sent_late = |us| {
            let figures = Figures::from([(SENT_LATE, us)]);
            lateness(&[Row::new("grid", "16 replicas", "leased", vec![figures])])
        };
        let message = "In 1 cell the machine could not keep up with the load: \
                       250.0 ms late in grid, leased, 16 replicas";
        assert_eq!(sent_late(250_000.0).as_deref(), Some(message));
        assert_eq!(sent_late(900.0), None);
    }

    #[test]
    fn an_excess_is_remarked() {
        let cell = cell(Case::Cold, Mode::Strict, 2, "1000-once");
        let expected = [
            "EXCEEDED: cold 1000-once, strict, 2 replicas, 3x: over by 2.0, bound 0",
            "missed: cold 1000-once, strict, 2 replicas, 3x: 1 of 2 retries were denied",
        ];
        assert_eq!(remarks(&cell, &row_of(&cell, 1_002)), expected);
    }

    #[test]
    fn bars_are_labelled_with_the_replicas_and_have_a_bound() {
        let rows = vec![
            row(Mode::Strict, 2, 1_000),
            row(Mode::Eventual, 2, 1_050),
            row(Mode::Local, 4, 3_000),
        ];
        let picture = picture(&test_report(&[], 0, rows));
        let [cold] = &picture.panels[..] else {
            panic!("not one panel: {picture:?}")
        };
        let found: Vec<_> = cold
            .bars
            .iter()
            .map(|bar| (&*bar.label, &*bar.series, bar.value.round()))
            .collect();
        let expected = [
            ("2 replicas", "strict", 0.0),
            ("2 replicas", "eventual", 50.0),
            ("2 replicas", "bound of eventual", 100.0),
            ("4 replicas", "local (wrong)", 2_000.0),
        ];
        assert_eq!(found, expected);
    }
}
