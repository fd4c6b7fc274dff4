//! The report as text tables.

use std::fmt;

use super::NOTES;
use super::ratios::Ratio;
use super::report::{Report, Row};
use super::request::{Case, Protocol};
use crate::text::{grouped, whole, write_if_busy, write_lines};

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            h2load,
            rounds,
            round_ms,
            ..
        } = self;
        writeln!(
            out,
            "{}, {} cores, {h2load}",
            self.machine.cpu, self.machine.cores
        )?;
        writeln!(out, "{rounds} rounds of {round_ms} ms, medians")?;
        write_if_busy(out, self.others())?;
        for group in &self.groups {
            self.numbers(out, group.protocol, group.case)?;
        }
        self.write_targets(out)?;
        writeln!(out)?;
        self.absent
            .iter()
            .try_for_each(|absent| writeln!(out, "- {absent}."))?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    fn numbers(&self, out: &mut fmt::Formatter<'_>, protocol: Protocol, case: Case) -> fmt::Result {
        writeln!(out, "\n{}: {}\n", protocol.name(), case.name())?;
        let heads = [
            "subject",
            "requests/s",
            "slowest..fastest",
            "cpu us/request",
            "p50 us",
            "p99 us",
        ];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(self.rows_of(protocol, case).map(line));
        write_lines(out, &lines)
    }

    fn write_targets(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "\nRequests/s relative to other subjects (lowest and highest round)\n"
        )?;
        let heads = ["", "to", "case", "ratio", "target"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(self.ratios.iter().map(ratio_line));
        write_lines(out, &lines)
    }
}

fn line(row: &Row) -> Vec<String> {
    vec![
        row.name.clone(),
        grouped(whole(row.median.requests_per_s)),
        format!(
            "{}..{}",
            grouped(whole(row.requests_per_s_min)),
            grouped(whole(row.requests_per_s_max))
        ),
        format!("{:.1}", row.median.cpu_us),
        format!("{:.0}", row.p50_us),
        format!("{:.0}", row.p99_us),
    ]
}

fn ratio_line(ratio: &Ratio) -> Vec<String> {
    let Ratio {
        protocol,
        case,
        value,
        lowest,
        highest,
        ..
    } = ratio;
    let missed = if ratio.is_missed() { "MISSED " } else { "" };
    vec![
        ratio.ours.over(*protocol),
        ratio.theirs.over(*protocol),
        case.name().to_owned(),
        format!("{missed}{value:.2}x ({lowest:.2}..{highest:.2})"),
        ratio
            .target
            .map_or_else(|| "-".to_owned(), |target| format!("{target}x or more")),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::entrant::Subject;
    use super::super::ratios::ratios;
    use super::super::ratios::tests::row;
    use super::super::report::Group;
    use super::*;
    use crate::machine::Machine;

    fn report(others: f64) -> Report {
        let rows = vec![
            row(
                Protocol::Http,
                Subject::Memory,
                [80_000.0, 90_000.0, 100_000.0],
            ),
            row(
                Protocol::Http,
                Subject::Redis,
                [50_000.0, 51_000.0, 60_000.0],
            ),
            row(
                Protocol::Http,
                Subject::Bare,
                [100_000.0, 100_000.0, 80_000.0],
            ),
        ];
        Report {
            machine: Machine {
                cores: 2,
                cpu: "Example 9000".to_owned(),
            },
            h2load: "h2load 1".to_owned(),
            rounds: 3,
            round_ms: 1_500,
            ratios: ratios(&rows),
            absent: vec!["x was not measured".to_owned()],
            groups: vec![Group {
                protocol: Protocol::Http,
                case: Case::Allowed,
                others,
            }],
            rows,
        }
    }

    #[test]
    fn the_table_shows_medians_and_what_was_missed() {
        let expected = "\
Example 9000, 2 cores, h2load 1
3 rounds of 1500 ms, medians

POST /v1/check over HTTP/1.1: 1 limit, allowed

subject           requests/s  slowest..fastest  cpu us/request  p50 us  p99 us
tollgate, memory      90,000   80,000..100,000             9.5     300     900
tollgate, Redis       51,000    50,000..60,000             9.5     300     900
bare axum            100,000   80,000..100,000             9.5     300     900

Requests/s relative to other subjects (lowest and highest round)

                         to              case                      ratio         target
tollgate, memory  bare axum  1 limit, allowed         0.90x (0.80..1.25)  0.85x or more
tollgate, Redis   bare axum  1 limit, allowed  MISSED 0.51x (0.50..0.75)  0.54x or more

- x was not measured.
";
        let shown = report(0.01).to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }

    #[test]
    fn a_busy_machine_is_reported() {
        assert!(
            report(0.2)
                .to_string()
                .contains("BUSY MACHINE: other programs took 20 % of it.")
        );
    }
}
