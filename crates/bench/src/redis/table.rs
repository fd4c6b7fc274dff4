//! The report as text tables.

use std::fmt;

use super::entrant::Runtime;
use super::ratios::{Measure, Ratio};
use super::report::{Report, Row};
use super::subjects::NOTES;
use super::{CROWD, KEYS};
use crate::text::{counted, grouped, whole, write_if_busy, write_lines};

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            redis_benchmark,
            rounds,
            round_ms,
            ..
        } = self;
        writeln!(
            out,
            "{}, {} cores, {server}, {redis_benchmark}",
            self.machine.cpu, self.machine.cores
        )?;
        writeln!(out, "{rounds} rounds of {round_ms} ms, medians")?;
        write_if_busy(out, self.others())?;
        for keys in KEYS {
            self.numbers(out, keys)?;
        }
        if !self.ratios.is_empty() {
            self.write_targets(out)?;
        }
        writeln!(out)?;
        NOTES.iter().try_for_each(|note| writeln!(out, "- {note}"))
    }
}

impl Report {
    fn numbers(&self, out: &mut fmt::Formatter<'_>, keys: u32) -> fmt::Result {
        writeln!(out, "\n{}\n", counted(keys as usize, "key"))?;
        let heads = [
            "subject",
            "callers",
            "decisions/s",
            "slowest..fastest",
            "p50 us",
            "p99 us",
            "calls/decision",
        ];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        lines.extend(self.rows.iter().filter(|row| row.keys == keys).map(line));
        write_lines(out, &lines)
    }

    fn write_targets(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nTargets\n")?;
        let heads = ["tollgate", "runtime"].map(str::to_owned).into_iter();
        let heads = heads.chain(KEYS.map(|keys| counted(keys as usize, "key")));
        let mut lines = vec![heads.collect::<Vec<_>>()];
        for what in Measure::ALL {
            for runtime in Runtime::ALL {
                let mark = if self.published == Some(runtime) {
                    "published: "
                } else {
                    ""
                };
                let mut line = vec![described(what), format!("{mark}{runtime}")];
                line.extend(KEYS.map(|keys| {
                    self.ratio(what, keys, runtime)
                        .map_or_else(|| "-".to_owned(), cell)
                }));
                lines.push(line);
            }
        }
        write_lines(out, &lines)
    }

    fn ratio(&self, what: Measure, keys: u32, runtime: Runtime) -> Option<&Ratio> {
        self.ratios
            .iter()
            .find(|ratio| (ratio.what, ratio.keys, ratio.runtime) == (what, keys, runtime))
    }
}

fn line(row: &Row) -> Vec<String> {
    let median = row.median;
    vec![
        row.subject.to_string(),
        row.crowd.to_string(),
        grouped(whole(median.decisions_per_s)),
        format!(
            "{}..{}",
            grouped(whole(row.decisions_per_s_min)),
            grouped(whole(row.decisions_per_s_max))
        ),
        format!("{:.0}", median.p50_us),
        format!("{:.0}", median.p99_us),
        format!("{:.3}", median.calls_per_decision),
    ]
}

fn described(what: Measure) -> String {
    let target = what.target();
    match what {
        Measure::Throughput => {
            format!(
                "{CROWD} callers: decisions/s to redis-benchmark -P 16 (target: {target}x or more)"
            )
        }
        Measure::Latency => {
            format!("1 caller: p50 to that of a bare EVALSHA (target: {target}x or less)")
        }
    }
}

fn cell(ratio: &Ratio) -> String {
    let Ratio {
        value,
        lowest,
        highest,
        ..
    } = ratio;
    let missed = if ratio.is_reached { "" } else { "MISSED " };
    format!("{missed}{value:.2}x ({lowest:.2}..{highest:.2})")
}

#[cfg(test)]
mod tests {
    use super::super::entrant::{Crowd, Subject};
    use super::super::ratios::{faster, ratios};
    use super::super::report::{Load, Round};
    use super::*;
    use crate::machine::Machine;

    fn report(others: f64) -> Report {
        let workers = Some(Runtime::TwoWorkers);
        let row =
            |name, runtime, callers, pipeline, decisions_per_s, p50_us, calls_per_decision| {
                let round = |decisions_per_s| Round {
                    decisions_per_s,
                    p50_us,
                    p99_us: p50_us * 3.0,
                    calls_per_decision,
                };
                let rounds = [
                    decisions_per_s,
                    decisions_per_s * 0.5,
                    decisions_per_s * 2.0,
                ]
                .map(round)
                .to_vec();
                Row::new(
                    Subject { name, runtime },
                    1,
                    Crowd { callers, pipeline },
                    rounds,
                )
            };
        let rows = vec![
            row("tollgate", workers, 1, 1, 20_000.0, 50.0, 1.0),
            row("bare", workers, 1, 1, 25_000.0, 40.0, 1.0),
            row("tollgate", workers, 256, 1, 140_000.0, 1_800.0, 0.02),
            row(
                "redis-benchmark -P 16",
                None,
                50,
                16,
                100_000.0,
                7_000.0,
                1.0,
            ),
        ];
        Report {
            machine: Machine {
                cores: 2,
                cpu: "Example 9000".to_owned(),
            },
            server: "Redis 7".to_owned(),
            redis_benchmark: "redis-benchmark 7".to_owned(),
            rounds: 3,
            round_ms: 700,
            published: faster(&rows),
            ratios: ratios(&rows),
            loads: vec![Load {
                keys: 1,
                callers: 1,
                others,
            }],
            rows,
        }
    }

    #[test]
    fn the_table_shows_medians_and_what_was_missed() {
        let expected = "\
Example 9000, 2 cores, Redis 7, redis-benchmark 7
3 rounds of 700 ms, medians

1 key

subject                callers  decisions/s  slowest..fastest  p50 us  p99 us  calls/decision
tollgate, 2 workers          1       20,000    10,000..40,000      50     150           1.000
bare, 2 workers              1       25,000    12,500..50,000      40     120           1.000
tollgate, 2 workers        256      140,000   70,000..280,000    1800    5400           0.020
redis-benchmark -P 16  50 x 16      100,000   50,000..200,000    7000   21000           1.000

100,000 keys

subject  callers  decisions/s  slowest..fastest  p50 us  p99 us  calls/decision

Targets

tollgate                                                                               runtime                      1 key  100,000 keys
256 callers: decisions/s to redis-benchmark -P 16 (target: 1.5x or more)  published: 2 workers  MISSED 1.40x (1.40..1.40)             -
256 callers: decisions/s to redis-benchmark -P 16 (target: 1.5x or more)              1 thread                          -             -
1 caller: p50 to that of a bare EVALSHA (target: 1.3x or less)            published: 2 workers         1.25x (1.25..1.25)             -
1 caller: p50 to that of a bare EVALSHA (target: 1.3x or less)                        1 thread                          -             -

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
