//! The table and the picture of the experiment.

use super::{
    BUSIEST_CPU, BUSIEST_SHARD, CALLS_PER_REQUEST, CALLS_PER_S, FALSE_DENIALS, LEASED, LOCAL_SHARE,
    OVER, STRICT, UTILISATION, WORST_KEY,
};
use crate::harness::{Bar, Panel, Picture, Report, Row, Table, distinct};

/// Keys that cost more calls per request than this are reported.
const WORSE: f64 = 1.01;

/// Adds the tables, the remarks and the notes.
pub(super) fn complete(mut report: Report) -> Report {
    let worse = leased(&report).filter(|row| row.median(WORST_KEY) > WORSE);
    let remark = |row: &Row| {
        let calls = row.number(WORST_KEY, 2);
        format!(
            "worse than strict: {}, {}: some keys cost {calls} calls per request",
            row.case, row.load
        )
    };
    let remarks: Vec<String> = worse.map(remark).collect();

    report.remarks.extend(remarks);
    report.tables = vec![table(&report)];
    report.notes = include_str!("notes.txt");
    report
}

/// The number of rows in which more was admitted than a limit allows.
pub(super) fn exceeded(report: &Report) -> usize {
    leased(report).filter(|row| row.median(OVER) > 0.0).count()
}

/// The simulated rows of leased limits.
fn leased(report: &Report) -> impl Iterator<Item = &Row> {
    let rows = report.rows.iter().filter(|row| row.subject == LEASED);
    rows.filter(|row| !row.median(CALLS_PER_S).is_nan())
}

fn table(report: &Report) -> Table {
    let heads = [
        "traffic",
        "replicas",
        "calls/s: strict",
        "leased",
        "per request",
        "worst key",
        "busiest shard/s: strict",
        "leased",
        "its CPU: strict",
        "leased",
        "local",
        "used",
        "false denials/M",
        "over",
    ];
    let title = "What a fleet costs a cluster of 100 shards, simulated";
    Table::new(title, heads).with_lines(leased(report), |row| {
        let strict = report.row(&row.case, &row.load, STRICT).unwrap_or(row);
        let both =
            |text: fn(&Row, &str) -> String, figure| [text(strict, figure), text(row, figure)];
        let percent = |row: &Row, figure: &str| row.percent(figure, 1);

        let replicas = row.load.split(' ').next().unwrap_or_default();
        let mut line = vec![row.case.clone(), replicas.to_owned()];
        line.extend(both(Row::count, CALLS_PER_S));
        line.extend([CALLS_PER_REQUEST, WORST_KEY].map(|figure| row.number(figure, 3)));
        line.extend(both(Row::count, BUSIEST_SHARD));
        line.extend(both(percent, BUSIEST_CPU));
        line.extend([row.percent(LOCAL_SHARE, 0), row.number(UTILISATION, 4)]);
        line.extend([row.number(FALSE_DENIALS, 1), row.number(OVER, 0)]);
        line
    })
}

/// Calls per second of the busiest shard, in a panel for each kind of traffic.
pub(super) fn picture(report: &Report) -> Picture {
    let cases = distinct(leased(report).map(|row| row.case.clone()));
    let panels = cases.into_iter().map(|case| {
        let bars = report.case(&case).map(|row| Bar {
            label: row.load.clone(),
            series: row.subject.clone(),
            value: row.median(BUSIEST_SHARD),
        });
        Panel {
            bars: bars.collect(),
            title: case,
        }
    });
    report.picture_of(
        "Script calls per second of the busiest of 100 shards",
        "Simulated with the real lease tables; strict computed as one call per request.",
        panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Figures, test_report};

    /// A row whose figures are all those of one call for every request.
    fn row(subject: &str, calls: f64, worst: f64) -> Row {
        row_over(subject, calls, worst, 0.0)
    }

    fn row_over(subject: &str, calls: f64, worst: f64, over: f64) -> Row {
        let figures = Figures::from([
            (CALLS_PER_S, 2_000.0 * calls),
            (CALLS_PER_REQUEST, calls),
            (WORST_KEY, worst),
            (BUSIEST_SHARD, 300.0 * calls),
            (BUSIEST_CPU, 0.03 * calls),
            (LOCAL_SHARE, 1.0 - calls),
            (UTILISATION, 0.999),
            (FALSE_DENIALS, 0.0),
            (OVER, over),
        ]);
        Row::new("many keys", "1,000 replicas", subject, vec![figures])
    }

    #[test]
    fn strict_is_beside_leased_and_keys_that_cost_more_are_reported() {
        let rows = vec![row(STRICT, 1.0, 1.0), row(LEASED, 0.5, 1.144)];
        let shown = complete(test_report(&[], 0, rows)).to_string();
        let expected = "\
What a fleet costs a cluster of 100 shards, simulated

traffic    replicas  calls/s: strict  leased  per request  worst key  busiest shard/s: strict  leased  its CPU: strict  leased  local    used  false denials/M  over
many keys     1,000            2,000   1,000        0.500      1.144                      300     150            3.0 %   1.5 %   50 %  0.9990              0.0     0

- worse than strict: many keys, 1,000 replicas: some keys cost 1.14 calls per request.
- calls: script calls";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn a_unit_above_the_limit_is_an_excess() {
        let rows = [0.0, 1.0].map(|over| row_over(LEASED, 0.5, 1.0, over));
        assert_eq!(exceeded(&test_report(&[], 0, rows.into())), 1);
    }

    #[test]
    fn a_panel_shows_both_modes_of_a_kind_of_traffic() {
        let report = test_report(&[], 0, vec![row(STRICT, 1.0, 1.0), row(LEASED, 0.5, 1.0)]);
        let picture = picture(&report);
        let [panel] = &picture.panels[..] else {
            panic!("not one panel: {picture:?}")
        };
        let found: Vec<_> = panel
            .bars
            .iter()
            .map(|bar| (&*bar.series, bar.value.round()))
            .collect();
        assert_eq!(found, [(STRICT, 300.0), (LEASED, 150.0)]);
    }
}
