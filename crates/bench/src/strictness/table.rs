//! The result of the experiment, shown as a text table and saved as numbers and a picture.

use std::fmt;

use serde::Serialize;

use super::NOTES;
use super::cells::{Case, Mode};
use super::row::Row;
use crate::harness::machine::Machine;
use crate::harness::text::{counted, grouped, write_lines};

/// If other programs used a larger share of the machine than this, latencies and utilisation are
/// not reliable.
const BUSY: f64 = 0.05;

/// A load that is sent later than this is lower than nominal.
const LATE_US: u64 = 100_000;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    /// The largest share of the machine that other programs used during any cell.
    pub(super) others: f64,
    /// The cells that were not measured, and why.
    pub(super) skipped: Vec<String>,
    /// The cells whose measurement failed, and why.
    pub(super) broken: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// A column of the table: its head, and how a row fills it.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: [Column; 18] = [
    ("case", |row| row.cell.name()),
    ("mode", |row| match row.cell.mode {
        Mode::Local => "local (wrong)".to_owned(),
        mode => mode.to_string(),
    }),
    ("N", |row| row.cell.replicas.to_string()),
    ("load", |row| format!("{}x", row.cell.load)),
    ("offered", |row| grouped(row.offered)),
    ("admitted", |row| grouped(row.admitted)),
    ("denied", |row| grouped(row.denied)),
    ("fallback", |row| grouped(row.degraded)),
    ("errors", |row| grouped(row.errors)),
    ("over", |row| {
        let mark = if row.is_exceeded { "EXCEEDED " } else { "" };
        format!("{mark}{:.1}", row.over())
    }),
    ("bound", |row| {
        shown(row.excess_bound, |bound| bound.to_string())
    }),
    ("used", |row| number(row.utilisation, 3)),
    ("calls/request", |row| number(row.calls_per_request, 4)),
    ("/admitted", |row| number(row.calls_per_admitted, 4)),
    ("/denied", |row| number(row.calls_per_denied, 4)),
    ("p50  p99  p99.9 ms", |row| {
        [row.p50_us, row.p99_us, row.p999_us]
            .map(|us| shown(us, ms))
            .join("  ")
    }),
    ("local", |row| {
        shown(row.local_share, |share| format!("{:.0} %", share * 100.0))
    }),
    ("retry ok", |row| {
        let retry = Some(row.retry_after).filter(|retry| retry.of > 0);
        shown(retry, |retry| format!("{} of {}", retry.kept, retry.of))
    }),
];

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}, {} cores", self.machine.cpu, self.machine.cores)?;
        if self.others > BUSY {
            let share = self.others * 100.0;
            writeln!(
                out,
                "BUSY MACHINE: other programs took {share:.0} % of it. \
                 Do not quote latencies or utilisation."
            )?;
        }

        writeln!(out)?;
        let heads = COLUMNS.map(|(head, _)| head.to_owned()).to_vec();
        let cells = |row| COLUMNS.map(|(_, cell)| cell(row)).to_vec();
        let lines: Vec<_> = [heads]
            .into_iter()
            .chain(self.rows.iter().map(cells))
            .collect();
        write_lines(out, &lines)?;
        writeln!(out)?;
        self.judgement(out)?;
        writeln!(out)?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    /// The cells in which more was admitted than the bound allows.
    pub(super) fn exceeded(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_exceeded)
    }

    fn judgement(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.exceeded() {
            writeln!(out, "EXCEEDED: {}", line(row))?;
        }
        for row in &self.rows {
            for missed in row.missed() {
                writeln!(out, "missed: {}: {missed}", row.cell)?;
            }
        }
        self.lateness(out)?;
        for line in self.skipped.iter().chain(&self.broken) {
            writeln!(out, "{line}")?;
        }
        let judged = self.rows.iter().filter(|row| row.excess_bound.is_some());
        let (judged, exceeded) = (judged.count(), self.exceeded().count());
        writeln!(
            out,
            "{} of {judged} cells stayed within their bound.",
            judged - exceeded
        )
    }

    /// Reports cells whose load was late. In the cold case all requests are due at the same time,
    /// so some are always late.
    fn lateness(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_late = |row: &&Row| {
            row.cell.case != Case::Cold && row.sent_late_p99_us.is_some_and(|us| us > LATE_US)
        };
        let late: Vec<&Row> = self.rows.iter().filter(is_late).collect();
        let Some(latest) = late.iter().max_by_key(|row| row.sent_late_p99_us) else {
            return Ok(());
        };
        writeln!(
            out,
            "In {} the machine could not keep up with the load: {} ms late in {}.",
            counted(late.len(), "cell"),
            shown(latest.sent_late_p99_us, ms),
            latest.cell
        )
    }
}

/// One line for a cell, printed as soon as it is measured.
pub(super) fn line(row: &Row) -> String {
    let Row {
        cell,
        offered,
        admitted,
        denied,
        ..
    } = row;
    let verdict = match row.excess_bound {
        Some(bound) if row.is_exceeded => format!(", EXCEEDS {bound}"),
        Some(bound) => format!(" of {bound}"),
        None => ", wrong on purpose".to_owned(),
    };
    format!(
        "{:<28} {:<8} N={:<2} {:>4}x  {offered:>6} offered {admitted:>6} admitted \
         {denied:>6} denied  over by {:.1}{verdict}  used {}  p99 {} ms",
        cell.name(),
        cell.mode,
        cell.replicas,
        cell.load,
        row.over(),
        number(row.utilisation, 3),
        shown(row.p99_us, ms),
    )
}

/// A dash for a value that is missing.
fn shown<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// Formats large values with fewer decimal places.
fn number(value: Option<f64>, digits: usize) -> String {
    shown(value, |value| {
        format!("{value:.*}", if value < 10.0 { digits } else { 0 })
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown to a tenth of a millisecond"
)]
fn ms(us: u64) -> String {
    format!("{:.1}", us as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;
    use crate::harness::machine::Machine;

    fn report(rows: Vec<Row>) -> Report {
        let machine = Machine {
            cores: 2,
            cpu: "Example 9000".to_owned(),
        };
        let skipped = vec!["skew: skipped: rain".to_owned()];
        Report {
            machine,
            others: 0.01,
            skipped,
            broken: vec!["grid: FAILED".to_owned()],
            rows,
        }
    }

    #[test]
    fn the_table_shows_figures_and_judgements() {
        let rows = vec![
            row(Mode::Strict, 2, 1_000),
            row(Mode::Leased, 16, 1_002),
            row(Mode::Local, 2, 2_000),
        ];
        let shown = report(rows).to_string();
        let expected = "\
Example 9000, 2 cores

case                     mode   N  load  offered  admitted  denied  fallback  errors          over  bound   used  calls/request  /admitted  /denied  p50  p99  p99.9 ms  local  retry ok
cold 1000-once         strict   2    3x    3,000     1,000   2,000         0       0           0.0      0  1.000         0.0100     0.0300   0.0150       0.5  0.5  0.5   50 %    1 of 2
cold 1000-once         leased  16    3x    3,000     1,002   1,998         0       0  EXCEEDED 2.0      0  1.002         0.0100     0.0299   0.0150       0.5  0.5  0.5   50 %    1 of 2
cold 1000-once  local (wrong)   2    3x    3,000     2,000   1,000         0       0        1000.0      -  2.000         0.0100     0.0150   0.0300       0.5  0.5  0.5   50 %    1 of 2

EXCEEDED: cold 1000-once";
        assert_eq!(&shown[..expected.len().min(shown.len())], expected);
        assert!(
            shown.contains(
                "\nskew: skipped: rain\ngrid: FAILED\n1 of 2 cells stayed within their bound.\n"
            ),
            "{shown}"
        );
    }

    #[test]
    fn a_late_load_is_reported() {
        let sent_late = |us| {
            let mut row = row(Mode::Leased, 16, 1_000);
            row.cell.case = Case::Grid;
            row.sent_late_p99_us = Some(us);
            report(vec![row]).to_string()
        };
        let message = "In 1 cell the machine could not keep up with the load: \
                       250.0 ms late in grid 1000-once, leased, 16 replicas.";
        assert!(sent_late(250_000).contains(message));
        assert!(!sent_late(900).contains("keep up"));
    }

    #[test]
    fn a_busy_machine_is_reported() {
        let shown = Report {
            others: 0.2,
            ..report(Vec::new())
        }
        .to_string();
        assert!(
            shown.contains("BUSY MACHINE: other programs took 20 % of it."),
            "{shown}"
        );
    }
}
