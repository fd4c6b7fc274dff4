//! The report as a text table.

use std::fmt;

use super::NOTES;
use super::plan::{Case, Mode, Topology};
use super::report::Report;
use super::row::Row;
use crate::text::{counted, grouped, write_lines};

/// If other programs used a larger share of the machine than this, latencies and utilisation are
/// not reliable.
const BUSY: f64 = 0.05;

/// A load that is sent later than this is lower than nominal.
const LATE_US: u64 = 100_000;

const HEADS: [&str; 18] = [
    "case",
    "mode",
    "N",
    "load",
    "offered",
    "admitted",
    "denied",
    "fallback",
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
        let mut lines = vec![HEADS.map(str::to_owned).to_vec()];
        lines.extend(self.rows.iter().map(cells));
        write_lines(out, &lines)?;
        writeln!(out)?;
        self.judgement(out)?;
        writeln!(out)?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    fn judgement(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.exceeded() {
            writeln!(out, "EXCEEDED: {}", line(row))?;
        }
        for row in &self.rows {
            for missed in row.missed() {
                writeln!(
                    out,
                    "missed: {}, {}, {} replicas: {missed}",
                    name(row),
                    row.mode.word(),
                    row.replicas
                )?;
            }
        }
        self.lateness(out)?;
        self.skipped
            .iter()
            .chain(&self.broken)
            .try_for_each(|skipped| writeln!(out, "{skipped}"))?;
        let judged = self
            .rows
            .iter()
            .filter(|row| row.excess_bound.is_some())
            .count();
        let exceeded = self.exceeded().count();
        writeln!(
            out,
            "{} of {judged} cells stayed within their bound.",
            judged - exceeded
        )
    }
}

impl Report {
    /// Reports cells whose load was late. In the cold case all requests are due at the same time,
    /// so some are always late.
    fn lateness(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().filter(|row| row.case != Case::Cold);
        let late =
            rows.filter_map(|row| Some((row.sent_late_p99_us.filter(|us| *us > LATE_US)?, row)));
        let late: Vec<(u64, &Row)> = late.collect();
        let Some((us, row)) = late.iter().max_by_key(|(us, _)| *us) else {
            return Ok(());
        };
        let (ms, name, mode, replicas) = (ms(*us), name(row), row.mode.word(), row.replicas);
        writeln!(
            out,
            "In {} the machine could not keep up with the load: {ms} ms late in {name}, \
             {mode}, {replicas} replicas.",
            counted(late.len(), "cell")
        )
    }
}

/// One line for a cell, printed as soon as it is measured.
pub(super) fn line(row: &Row) -> String {
    let Row {
        offered,
        admitted,
        denied,
        ..
    } = row;
    let verdict = match row.excess_bound {
        Some(bound) if row.is_exceeded => format!("over by {:.1}, EXCEEDS {bound}", row.over()),
        Some(bound) => format!("over by {:.1} of {bound}", row.over()),
        None => format!("over by {:.1}, wrong on purpose", row.over()),
    };
    let used = number(row.utilisation, 3);
    let p99_ms = row.p99_us.map_or_else(dash, ms);
    format!(
        "{:<28} {:<8} N={:<2} {:>4}x  {offered:>6} offered {admitted:>6} admitted \
         {denied:>6} denied  {verdict}  used {used}  p99 {p99_ms} ms",
        name(row),
        row.mode.word(),
        row.replicas,
        row.load,
    )
}

fn name(row: &Row) -> String {
    let place = if row.topology == Topology::Cluster {
        ", cluster"
    } else {
        ""
    };
    format!("{} {}{place}", row.case.name(), row.limit)
}

fn cells(row: &Row) -> Vec<String> {
    let mark = if row.is_exceeded { "EXCEEDED " } else { "" };
    let latency = [row.p50_us, row.p99_us, row.p999_us].map(|us| us.map_or_else(dash, ms));
    let retry = row.retry_after;
    vec![
        name(row),
        if row.mode == Mode::Local {
            "local (wrong)".to_owned()
        } else {
            row.mode.word().to_owned()
        },
        row.replicas.to_string(),
        format!("{}x", row.load),
        grouped(row.offered),
        grouped(row.admitted),
        grouped(row.denied),
        grouped(row.degraded),
        grouped(row.errors),
        format!("{mark}{:.1}", row.over()),
        row.excess_bound
            .map_or_else(dash, |bound| bound.to_string()),
        number(row.utilisation, 3),
        number(row.calls_per_request, 4),
        number(row.calls_per_admitted, 4),
        number(row.calls_per_denied, 4),
        latency.join("  "),
        row.local_share
            .map_or_else(dash, |share| format!("{:.0} %", share * 100.0)),
        if retry.of == 0 {
            dash()
        } else {
            format!("{} of {}", retry.kept, retry.of)
        },
    ]
}

/// Formats large values with fewer decimal places.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(dash, |value| {
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

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;
    use crate::machine::Machine;

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
        let late = Row {
            case: Case::Grid,
            sent_late_p99_us: Some(250_000),
            ..row(Mode::Leased, 16, 1_000)
        };
        let in_time = Row {
            case: Case::Grid,
            sent_late_p99_us: Some(900),
            ..row(Mode::Leased, 16, 1_000)
        };
        let message = "In 1 cell the machine could not keep up with the load: \
                       250.0 ms late in grid 1000-once, leased, 16 replicas.";
        assert!(report(vec![late]).to_string().contains(message));
        assert!(!report(vec![in_time]).to_string().contains("keep up"));
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
