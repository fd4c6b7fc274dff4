//! The report as tables for people.

use std::fmt;

use super::NOTES;
use super::ratios::{Asked, Measure, Ratio};
use super::report::{Group, Report};
use super::subject::Subject;
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
            self.servers(out, group)?;
            calls(out, group)?;
        }
        self.layers(out)?;
        writeln!(out)?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    fn servers(&self, out: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
        writeln!(out, "\nGET / over HTTP/1.1, {}\n", group.case.name())?;
        let heads = [
            "subject",
            "requests/s",
            "slowest..fastest",
            "of bare",
            "cpu us/request",
            "of bare",
        ];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for row in &group.rows {
            let of_bare = |measure| {
                let is_it = |ratio: &&Ratio| {
                    (ratio.case, ratio.measure, ratio.ours, ratio.theirs)
                        == (group.case, measure, row.subject, Subject::Bare)
                };
                self.ratios
                    .iter()
                    .find(is_it)
                    .map_or_else(|| "-".to_owned(), shown)
            };
            lines.push(vec![
                row.name.to_owned(),
                grouped(whole(row.median.requests_per_s)),
                format!(
                    "{}..{}",
                    grouped(whole(row.requests_per_s_min)),
                    grouped(whole(row.requests_per_s_max))
                ),
                of_bare(Measure::Rate),
                format!("{:.1}", row.median.cpu_us),
                of_bare(Measure::Cpu),
            ]);
        }
        write_lines(out, &lines)
    }

    fn layers(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nLayers relative to each other, with targets\n")?;
        let heads = ["", "to", "", "", "ratio", "asked"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        let is_told = |ratio: &&Ratio| ratio.theirs != Subject::Bare || ratio.asked.is_some();
        lines.extend(self.ratios.iter().filter(is_told).map(|ratio| {
            vec![
                ratio.ours.name().to_owned(),
                ratio.theirs.name().to_owned(),
                ratio.case.name().to_owned(),
                ratio.measure.name().to_owned(),
                shown(ratio),
                match ratio.asked {
                    Some(Asked::AtLeast(least)) => format!("{least}x or more"),
                    Some(Asked::AtMost(most)) => format!("{most}x or less"),
                    None => "-".to_owned(),
                },
            ]
        }));
        write_lines(out, &lines)
    }
}

fn calls(out: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    writeln!(
        out,
        "\nCalls in one process, one thread, {}\n",
        group.case.name()
    )?;
    let heads = ["subject", "ns/call", "fastest..slowest", "added ns"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(group.calls.iter().map(|calls| {
        vec![
            calls.name.to_owned(),
            format!("{:.0}", calls.ns),
            format!("{:.0}..{:.0}", calls.ns_min, calls.ns_max),
            format!("{:.0}", calls.added_ns),
        ]
    }));
    write_lines(out, &lines)
}

fn shown(ratio: &Ratio) -> String {
    let missed = if ratio.is_missed() { "MISSED " } else { "" };
    format!(
        "{missed}{:.3}x ({:.2}..{:.2})",
        ratio.value, ratio.lowest, ratio.highest
    )
}

#[cfg(test)]
mod tests {
    use super::super::ratios::ratios;
    use super::super::ratios::tests::group;
    use super::*;
    use crate::machine::Machine;

    fn report(others: f64) -> Report {
        let groups = vec![group(others)];
        Report {
            machine: Machine {
                cores: 2,
                cpu: "Example 9000".to_owned(),
            },
            h2load: "h2load 1".to_owned(),
            rounds: 3,
            round_ms: 1_500,
            ratios: ratios(&groups),
            groups,
        }
    }

    #[test]
    fn the_table_shows_medians_and_what_was_asked() {
        let expected = "\
Example 9000, 2 cores, h2load 1
3 rounds of 1500 ms, medians

GET / over HTTP/1.1, all allowed

subject    requests/s  slowest..fastest              of bare  cpu us/request              of bare
bare axum      50,000    40,000..60,000                    -            10.0                    -
tollgate       45,000    39,000..58,000  0.967x (0.90..0.97)            11.1  1.034x (1.03..1.11)

Calls in one process, one thread, all allowed

subject                 ns/call  fastest..slowest  added ns
bare axum                   100           90..110         0
tollgate                    200          195..210       100
tower_governor, fields      300          200..310       200

Layers relative to each other, with targets

                              to                                                 ratio          asked
tollgate               bare axum  all allowed          requests/s  0.967x (0.90..0.97)  0.95x or more
tollgate  tower_governor, fields  all allowed  ns added to a call  0.500x (0.50..0.95)     1x or less

";
        let shown = report(0.01).to_string();
        assert_eq!(shown.split_once("- bare axum:").unwrap().0, expected);
    }

    #[test]
    fn a_busy_machine_is_told() {
        assert!(
            report(0.2)
                .to_string()
                .contains("BUSY MACHINE: other programs took 20 % of it.")
        );
    }
}
