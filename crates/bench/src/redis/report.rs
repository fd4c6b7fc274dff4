//! The ratios and tables of the benchmark.

use super::{BARE, CROWD, KEYS, PIPELINED, THREE_LIMITS, TOLLGATE, name};
use crate::harness::callers::{CALLS, RATE};
use crate::harness::{Goal, P50, P99, Ratio, Report, Runtime, Table, counted};

/// Decisions per second with the most callers, relative to redis-benchmark with pipelines.
const RATE_GOAL: Goal = Goal::AtLeast(1.5);
/// Decisions per second over three limits, relative to one limit on the same runtime.
const THREE_LIMITS_GOAL: Goal = Goal::AtLeast(0.75);
/// The median latency of one caller, relative to a bare EVALSHA on the same runtime.
const LATENCY_GOAL: Goal = Goal::AtMost(1.3);

/// Adds the ratios and the tables.
pub(super) fn complete(mut report: Report) -> Report {
    report.ratios = ratios(&report);
    report.tables = KEYS.map(|keys| numbers(&report, keys)).into();
    report.notes = include_str!("notes.txt");
    report
}

/// All ratios whose subjects were measured.
fn ratios(report: &Report) -> Vec<Ratio> {
    let [crowd, alone] = [CROWD, 1].map(|callers| counted(callers, "caller"));
    let cases = KEYS.map(|keys| counted(keys as usize, "key"));
    let both = || {
        cases
            .iter()
            .flat_map(|case| Runtime::ALL.map(|runtime| (case, runtime)))
    };
    let rates = both().filter_map(|(case, runtime)| {
        let ours = report.row(case, &crowd, &name(TOLLGATE, runtime))?;
        let theirs = report.case(case).find(|row| row.subject == PIPELINED)?;
        Some(Ratio::of_medians(RATE, ours, theirs, Some(RATE_GOAL)))
    });
    let three_limits = both().filter_map(|(case, runtime)| {
        let row = |subject| report.row(case, &crowd, &name(subject, runtime));
        let (three, one) = (row(THREE_LIMITS)?, row(TOLLGATE)?);
        Some(Ratio::of_rounds(RATE, three, one, Some(THREE_LIMITS_GOAL)))
    });
    let latencies = both().filter_map(|(case, runtime)| {
        let row = |subject| report.row(case, &alone, &name(subject, runtime));
        Some(Ratio::of_medians(
            P50,
            row(TOLLGATE)?,
            row(BARE)?,
            Some(LATENCY_GOAL),
        ))
    });
    rates.chain(three_limits).chain(latencies).collect()
}

fn numbers(report: &Report, keys: u32) -> Table {
    let heads = [
        "subject",
        "load",
        "decisions/s",
        "slowest..fastest",
        "p50 us",
        "p99 us",
        "calls/decision",
    ];
    let case = counted(keys as usize, "key");
    Table::new(&case, heads).with_lines(report.case(&case), |row| {
        vec![
            row.subject.clone(),
            row.load.clone(),
            row.count(RATE),
            row.counts(RATE),
            row.number(P50, 0),
            row.number(P99, 0),
            row.number(CALLS, 3),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Figures, Row, test_report};

    fn row(subject: &str, load: &str, [rate, p50, calls]: [f64; 3]) -> Row {
        let round =
            |rate| Figures::from([(RATE, rate), (P50, p50), (P99, p50 * 3.0), (CALLS, calls)]);
        let rounds = [rate, rate * 0.5, rate * 2.0].map(round);
        Row::new("1 key", load, subject, rounds.to_vec())
    }

    fn rows() -> Vec<Row> {
        vec![
            row("tollgate, 2 workers", "1 caller", [20_000.0, 50.0, 1.0]),
            row("bare, 2 workers", "1 caller", [25_000.0, 40.0, 1.0]),
            row(
                "tollgate, 2 workers",
                "256 callers",
                [140_000.0, 1_800.0, 0.02],
            ),
            row(
                "tollgate, 3 limits, 2 workers",
                "256 callers",
                [98_000.0, 2_600.0, 0.02],
            ),
            row(PIPELINED, "50 x 16 callers", [100_000.0, 7_000.0, 1.0]),
        ]
    }

    #[test]
    fn the_table_shows_medians_and_what_was_missed() {
        let expected = "\
Example 9000, 2 cores, Redis 7, redis-benchmark 7
3 rounds of 700 ms, medians

1 key

subject                                   load  decisions/s  slowest..fastest  p50 us  p99 us  calls/decision
tollgate, 2 workers                   1 caller       20,000    10,000..40,000      50     150           1.000
bare, 2 workers                       1 caller       25,000    12,500..50,000      40     120           1.000
tollgate, 2 workers                256 callers      140,000   70,000..280,000    1800    5400           0.020
tollgate, 3 limits, 2 workers      256 callers       98,000   49,000..196,000    2600    7800           0.020
redis-benchmark -P 16          50 x 16 callers      100,000   50,000..200,000    7000   21000           1.000

100,000 keys

subject  load  decisions/s  slowest..fastest  p50 us  p99 us  calls/decision

Relative to other subjects (lowest and highest round)

                                                  to   case         load           figure                       ratio         target
tollgate, 2 workers            redis-benchmark -P 16  1 key  256 callers  decisions_per_s  MISSED 1.400x (1.40..1.40)   1.5x or more
tollgate, 3 limits, 2 workers    tollgate, 2 workers  1 key  256 callers  decisions_per_s  MISSED 0.700x (0.70..0.70)  0.75x or more
tollgate, 2 workers                  bare, 2 workers  1 key     1 caller           p50_us         1.250x (1.25..1.25)   1.3x or less

";
        let report = test_report(&["Redis 7", "redis-benchmark 7"], 700, rows());
        let shown = complete(report).to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let mut rows = rows();
        rows.push(row("tollgate, 1 thread", "256 callers", [80.0, 1.0, 1.0]));
        let found: Vec<_> = ratios(&test_report(&[], 700, rows))
            .iter()
            .map(|ratio| (ratio.figure, ratio.ours.clone(), ratio.is_missed))
            .collect();
        let [workers, thread] = Runtime::ALL.map(|runtime| name(TOLLGATE, runtime));
        assert_eq!(
            found,
            [
                (RATE, workers.clone(), true),
                (RATE, thread, true),
                (RATE, name(THREE_LIMITS, Runtime::TwoWorkers), true),
                (P50, workers, false)
            ]
        );
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        assert_eq!(ratios(&test_report(&[], 1, rows()[..1].to_vec())), []);
    }
}
