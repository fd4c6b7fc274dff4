//! The Redis store, redis-benchmark and plain clients, all of which run the same script on one
//! temporary server.

mod clients;

use self::clients::{LIMITS, Target};
use crate::harness::prelude::*;

/// One hot key, and as many keys as a busy service has clients.
const KEYS: [u32; 2] = [1, 100_000];
/// The number of callers for the throughput target.
const CROWD: usize = 256;
/// The default of redis-benchmark.
const CLIENTS: usize = 50;
const PIPELINED_LOAD: &str = "50 x 16 callers";

const TOLLGATE: &str = "tollgate";
const THREE_LIMITS: &str = "tollgate, 3 limits";
const BARE: &str = "bare";
const PIPELINED: &str = "redis-benchmark -P 16";

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let mut bench = Bench::new(arguments, [(3, 120), (7, 700)]);
    let target = Target::start()?;
    bench.uses(vec![
        store_version(&target.server),
        RedisBenchmark::version()?,
    ]);

    for keys in KEYS {
        target.fill(keys)?;
        let case = counted(keys as usize, "key");
        // One caller for the latency, and many for the throughput.
        for callers in [1, 64, CROWD] {
            if bench.begins(&format!("{}, {case}", counted(callers, "caller"))) {
                let entrants = entrants(&target, keys, callers)?;
                bench.measure(&case, &[target.server.pid()], entrants)?;
            }
        }
    }
    bench.publish("redis", complete).map(drop)
}

/// The name of a subject on a runtime.
fn name(subject: &str, runtime: Runtime) -> String {
    format!("{subject}, {}", runtime.name())
}

/// All subjects for a number of callers and keys. redis-benchmark brings its own callers and is
/// measured once, together with the largest number of callers.
fn entrants(target: &Target, keys: u32, callers: usize) -> Result<Vec<Entrant<'static>>> {
    let tollgate = |limits| move || clients::tollgate(target, limits, keys, callers);
    let mut entrants = on_runtimes(TOLLGATE, keys, tollgate(&LIMITS[..1]))?;
    entrants.extend(on_runtimes(THREE_LIMITS, keys, tollgate(&LIMITS))?);
    let bare = || clients::bare(target, callers);
    entrants.extend(on_runtimes(BARE, keys, bare)?);
    let redis_rs = || clients::redis_rs(target, keys, callers);
    entrants.extend(on_runtimes("redis-rs", keys, redis_rs)?);
    if callers == CROWD {
        entrants.push(redis_benchmark(
            PIPELINED,
            PIPELINED_LOAD,
            16,
            target,
            keys,
        )?);
        entrants.push(redis_benchmark(
            "redis-benchmark",
            "50 callers",
            1,
            target,
            keys,
        )?);
    }
    Ok(entrants)
}

/// A subject on each runtime.
fn on_runtimes<C: Caller, F: Future<Output = Result<ConnectedCallers<C>>>>(
    subject: &str,
    keys: u32,
    connect: impl Fn() -> F,
) -> Result<Vec<Entrant<'static>>> {
    let entrant = |runtime| in_process(&name(subject, runtime), keys, runtime, connect());
    Runtime::ALL.into_iter().map(entrant).collect()
}

/// redis-benchmark, calling the same script.
fn redis_benchmark(
    name: &str,
    load: &str,
    pipeline: usize,
    target: &Target,
    keys: u32,
) -> Result<Entrant<'static>> {
    let is_drawn = ["-r", &keys.to_string()];
    let (options, key) = match keys {
        1 => (&is_drawn[..0], clients::key(LIMITS[0], 0)),
        _ => (&is_drawn[..], clients::key_to_draw()),
    };
    let key = String::from_utf8(key)?;
    let call = ["EVALSHA", &target.script_with_arguments, "1", &key];
    let command = [options, &call].concat();

    let mut program = RedisBenchmark::new(target.server.addr(), CLIENTS, pipeline, &command);
    Ok(Entrant::new(name, load, move |length| {
        Ok(program.round(length)?.1)
    }))
}

/// Decisions per second with the most callers, relative to redis-benchmark with pipelines.
const RATE_GOAL: Goal = Goal::AtLeast(1.5);
/// Decisions per second over three limits, relative to one limit on the same runtime.
const THREE_LIMITS_GOAL: Goal = Goal::AtLeast(0.75);
/// The median latency of one caller, relative to a bare EVALSHA on the same runtime.
const LATENCY_GOAL: Goal = Goal::AtMost(1.3);

/// Adds the ratios, the tables and the picture.
fn complete(report: &mut Report) {
    compare(report);
    report.tables = KEYS.map(|keys| numbers(report, keys)).into();
    report.notes = include_str!("notes.txt");
    let panel = ("Decisions per second: taller is better", RATE);
    report.draw("Decisions per second, on one server", &[panel]);
}

fn compare(report: &mut Report) {
    let [crowd, alone] = &[CROWD, 1].map(|callers| counted(callers, "caller"));
    for keys in KEYS {
        for runtime in Runtime::ALL {
            let names = [TOLLGATE, THREE_LIMITS, BARE].map(|subject| name(subject, runtime));
            let [ours, three, bare] = &names;
            let mut compare = |of, figure, pair, goal| {
                let case = counted(keys as usize, "key");
                report.compare(of, figure, &case, pair, Some(goal));
            };

            let pipelined = [(&**crowd, &**ours), (PIPELINED_LOAD, PIPELINED)];
            compare(RatioOf::Medians, RATE, pipelined, RATE_GOAL);
            let limits = [(&**crowd, &**three), (crowd, ours)];
            compare(RatioOf::Rounds, RATE, limits, THREE_LIMITS_GOAL);
            let latency = [(&**alone, &**ours), (alone, bare)];
            compare(RatioOf::Medians, P50, latency, LATENCY_GOAL);
        }
    }
}

fn numbers(report: &Report, keys: u32) -> Table {
    let columns = [
        ("subject", "{subject}"),
        ("load", "{load}"),
        ("decisions/s", "{decisions_per_s:,}"),
        ("slowest..fastest", "{decisions_per_s:..,}"),
        ("p50 us", "{p50_us:0}"),
        ("p99 us", "{p99_us:0}"),
        ("calls/decision", "{calls_per_decision:3}"),
    ];
    let case = counted(keys as usize, "key");
    Table::from_rows(&case, report.case(&case), &columns)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut report = test_report(&["Redis 7", "redis-benchmark 7"], 700, rows());
        complete(&mut report);
        let shown = report.to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let mut rows = rows();
        rows.push(row("tollgate, 1 thread", "256 callers", [80.0, 1.0, 1.0]));
        let mut report = test_report(&[], 700, rows);
        compare(&mut report);
        let found: Vec<_> = report
            .ratios
            .iter()
            .map(|ratio| (ratio.figure, ratio.ours.clone(), ratio.is_missed))
            .collect();
        let [workers, thread] = Runtime::ALL.map(|runtime| name(TOLLGATE, runtime));
        assert_eq!(
            found,
            [
                (RATE, workers.clone(), true),
                (RATE, name(THREE_LIMITS, Runtime::TwoWorkers), true),
                (P50, workers, false),
                (RATE, thread, true)
            ]
        );
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        let mut report = test_report(&[], 1, rows()[..1].to_vec());
        compare(&mut report);
        assert_eq!(report.ratios, []);
    }
}
