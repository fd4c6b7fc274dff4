//! The report as text tables.

use std::fmt;

use super::accuracy::Burst;
use super::case::Case;
use super::ratios::{self, Ratio};
use super::report::{Report, Row};
use super::subjects::{MEMORY, NOTES};
use crate::text::write_lines;

/// If threads waited for a core for a larger share of the time than this, the numbers are not
/// reliable.
const BUSY: f64 = 0.05;

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            machine,
            server,
            rounds,
            round_ms,
            ..
        } = self;
        writeln!(out, "{}, {} cores, {server}", machine.cpu, machine.cores)?;
        writeln!(out, "{rounds} rounds of {round_ms} ms, medians")?;
        if self.waited() > BUSY {
            let share = self.waited() * 100.0;
            writeln!(
                out,
                "BUSY MACHINE: threads waited {share:.0} % of their time for a core. \
                 Do not quote these numbers."
            )?;
        }
        for case in Case::ALL {
            self.numbers(out, case)?;
        }
        if !self.ratios.is_empty() {
            self.write_targets(out)?;
        }
        if !self.bursts.is_empty() {
            self.write_bursts(out)?;
        }
        writeln!(out)?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    fn numbers(&self, out: &mut fmt::Formatter<'_>, case: Case) -> fmt::Result {
        writeln!(out, "\nOne key, {case}\n")?;
        let heads = [
            "subject",
            "load",
            "ns/decision",
            "fastest..slowest",
            "to memory",
            "local",
            "calls/decision",
        ];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(
            self.rows
                .iter()
                .filter(|row| row.case == case)
                .map(|row| self.line(row)),
        );
        write_lines(out, &lines)
    }

    fn line(&self, row: &Row) -> Vec<String> {
        let memory = self.row(row.case, MEMORY, row.load);
        vec![
            row.subject.to_owned(),
            row.load.to_string(),
            format!("{:.1}", row.median.ns_per_decision),
            format!("{:.1}..{:.1}", row.ns_min, row.ns_max),
            memory.map_or_else(
                || "-".to_owned(),
                |memory| format!("{:.2}x", ratios::value(row, memory)),
            ),
            format!("{:.4} %", row.median.local * 100.0),
            format!("{:.7}", row.median.calls_per_decision),
        ]
    }

    fn write_targets(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nTargets\n")?;
        let lines: Vec<_> = self.ratios.iter().map(described).collect();
        write_lines(out, &lines)
    }

    fn write_bursts(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "\nTwo limiters that share a limit, under a burst of four times the limit\n"
        )?;
        let heads = ["subject", "limit", "bound", "admitted in each run"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(self.bursts.iter().map(admitted));
        write_lines(out, &lines)
    }
}

fn described(ratio: &Ratio) -> Vec<String> {
    let Ratio {
        to,
        load,
        value,
        lowest,
        highest,
        target,
        ..
    } = ratio;
    let missed = if ratio.is_reached { "" } else { "MISSED " };
    vec![
        format!("leased, {load}: decisions/s to {to} (target: {target}x or more)"),
        format!("{missed}{value:.2}x ({lowest:.2}..{highest:.2})"),
    ]
}

fn admitted(burst: &Burst) -> Vec<String> {
    let broken = if burst.is_kept() == Some(false) {
        "EXCEEDED "
    } else {
        ""
    };
    let runs: Vec<String> = burst.admitted.iter().map(ToString::to_string).collect();
    vec![
        burst.subject.to_owned(),
        burst.limit.to_string(),
        burst
            .bound
            .map_or_else(|| "-".to_owned(), |bound| bound.to_string()),
        format!("{broken}{}", runs.join(" ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::entrant::Load;
    use super::super::ratios::ratios;
    use super::super::report::Round;
    use super::super::subjects::{LEASED, TRYPEMA};
    use super::*;
    use crate::machine::Machine;

    fn report(waited: f64) -> Report {
        let row = |subject, ns: f64| {
            let round = |ns_per_decision: f64| Round {
                ns_per_decision,
                decisions_per_s: 1e9 / ns_per_decision,
                local: 1.0,
                calls_per_decision: 0.000_002,
                waited,
            };
            Row::new(
                Case::Hot,
                subject,
                Load::Threads(1),
                [ns, ns * 2.0, ns * 0.5].map(round).to_vec(),
            )
        };
        let rows = vec![row(MEMORY, 40.0), row(LEASED, 100.0)];
        let burst = |subject, bound, admitted| Burst {
            subject,
            limit: 1_000,
            bound,
            admitted,
        };
        Report {
            machine: Machine {
                cores: 2,
                cpu: "Example 9000".to_owned(),
            },
            server: "Redis 7".to_owned(),
            rounds: 3,
            round_ms: 250,
            ratios: ratios(&rows),
            rows,
            bursts: vec![
                burst(LEASED, Some(1_000), vec![1_000, 1_001]),
                burst(TRYPEMA, None, vec![2_000, 2_000]),
            ],
        }
    }

    #[test]
    fn the_table_shows_what_was_missed_and_what_was_broken() {
        let expected = "\
Example 9000, 2 cores, Redis 7
3 rounds of 250 ms, medians

One key, hot

subject      load  ns/decision  fastest..slowest  to memory       local  calls/decision
memory   1 thread         40.0        20.0..80.0      1.00x  100.0000 %       0.0000020
leased   1 thread        100.0       50.0..200.0      0.40x  100.0000 %       0.0000020

One key, denied

subject  load  ns/decision  fastest..slowest  to memory  local  calls/decision

Targets

leased, 1 thread: decisions/s to memory (target: 0.5x or more)  MISSED 0.40x (0.40..0.40)

Two limiters that share a limit, under a burst of four times the limit

subject         limit  bound  admitted in each run
leased           1000   1000    EXCEEDED 1000 1001
trypema-hybrid   1000      -             2000 2000

";
        let shown = report(0.01).to_string();
        assert_eq!(shown.split_once("- memory,").unwrap().0, expected);
    }

    #[test]
    fn a_busy_machine_is_reported() {
        assert!(
            report(0.2)
                .to_string()
                .contains("BUSY MACHINE: threads waited 20 % of their time for a core.")
        );
    }
}
