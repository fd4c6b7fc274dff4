//! The report as text tables.

use std::fmt;

use super::report::Report;
use super::subjects::NOTES;
use crate::text::write_lines;

/// If a round lost a larger share of its time to other programs than this, it is not reliable.
const BUSY: f64 = 0.05;

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{}, {} cores, {} rounds",
            self.machine.cpu, self.machine.cores, self.rounds
        )?;
        if self.waited() > BUSY {
            let share = self.waited() * 100.0;
            writeln!(
                out,
                "BUSY MACHINE: a round waited {share:.0} % of its time for a core. \
                 Do not quote these numbers."
            )?;
        }
        self.times(out)?;
        self.spreads(out)?;
        if !self.bytes_per_key.is_empty() {
            self.bytes(out)?;
        }
        if !self.cap.is_empty() {
            self.floods(out)?;
        }
        writeln!(out)?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    fn times(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |load: (&str, usize), subject: &str| {
            let Some(row) = self.row(load, subject) else {
                return "-".to_owned();
            };
            match self.governor_ns(load) {
                Some(governor) => {
                    format!("{:.0} ({:.2}x)", row.ns_per_op, governor / row.ns_per_op)
                }
                None => format!("{:.0}", row.ns_per_op),
            }
        };
        writeln!(
            out,
            "\nNanoseconds per decision, median (and how many times as fast as governor with \
             default settings)\n"
        )?;
        self.matrix(out, cell)
    }

    fn spreads(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |load: (&str, usize), subject: &str| {
            self.row(load, subject).map_or_else(
                || "-".to_owned(),
                |row| format!("{:.0}..{:.0}", row.min, row.max),
            )
        };
        writeln!(out, "\nFastest and slowest round\n")?;
        self.matrix(out, cell)
    }

    fn matrix(
        &self,
        out: &mut fmt::Formatter<'_>,
        cell: impl Fn((&str, usize), &str) -> String,
    ) -> fmt::Result {
        let subjects = self.subjects();
        let heads = ["case", "threads"]
            .into_iter()
            .chain(subjects.iter().copied());
        let mut lines = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        for load in self.loads() {
            let mut line = vec![load.0.to_owned(), load.1.to_string()];
            line.extend(subjects.iter().map(|subject| cell(load, subject)));
            lines.push(line);
        }
        write_lines(out, &lines)
    }

    fn bytes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.bytes_per_key.first().map_or(0, |bytes| bytes.keys);
        writeln!(
            out,
            "\nBytes per key with {keys} keys, and the lowest and highest from half of them on\n"
        )?;
        let mut lines = vec![
            ["subject", "bytes per key", "lowest", "highest"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for bytes in &self.bytes_per_key {
            let numbers =
                [bytes.bytes_per_key, bytes.best, bytes.worst].map(|number| format!("{number:.0}"));
            lines.push(
                [bytes.subject.to_owned()]
                    .into_iter()
                    .chain(numbers)
                    .collect(),
            );
        }
        write_lines(out, &lines)
    }

    fn floods(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.cap.first().map_or(0, |flooded| flooded.keys_sent);
        writeln!(out, "\nA flood of {keys} keys that are used only once\n")?;
        let heads = [
            "subject",
            "cap",
            "keys kept",
            "peak MB",
            "ns per key",
            "offenders still denied",
        ];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for flooded in &self.cap {
            lines.push(vec![
                flooded.subject.to_owned(),
                flooded
                    .keys_max
                    .map_or_else(|| "none".to_owned(), |cap| cap.to_string()),
                flooded
                    .keys_kept
                    .map_or_else(|| "unknown".to_owned(), |kept| kept.to_string()),
                (flooded.peak_bytes / 1_000_000).to_string(),
                format!("{:.0}", flooded.ns_per_insert),
                format!(
                    "{} of {}",
                    flooded.offenders_still_denied, flooded.offenders
                ),
            ]);
        }
        write_lines(out, &lines)
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::memory::entrant::Round;
    use crate::memory::report::{Report, Row};

    #[test]
    fn the_table_shows_medians_ratios_and_gaps() {
        let row = |subject, case, median: f64| {
            let rounds = [median + 9.0, median - 1.0, median].map(|ns_per_op| Round {
                ns_per_op,
                waited: 0.01,
            });
            Row::new(subject, case, 1, &rounds)
        };
        let report = Report {
            machine: Machine {
                cores: 2,
                cpu: "Example 9000".to_owned(),
            },
            rounds: 5,
            rows: vec![
                row("tollgate", "hot", 50.0),
                row("governor", "hot", 120.0),
                row("governor-ahash", "hot", 100.0),
                row("tollgate", "uniform", 400.0),
            ],
            bytes_per_key: Vec::new(),
            cap: Vec::new(),
        };
        let expected = "\
Example 9000, 2 cores, 5 rounds

Nanoseconds per decision, median (and how many times as fast as governor with default settings)

case     threads    tollgate     governor  governor-ahash
hot            1  50 (2.40x)  120 (1.00x)     100 (1.20x)
uniform        1         400            -               -

Fastest and slowest round

case     threads  tollgate  governor  governor-ahash
hot            1    49..59  119..129         99..109
uniform        1  399..409         -               -

";
        let shown = report.to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }
}
