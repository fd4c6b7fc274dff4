//! The scale experiment: what large fleets, many keys and a large cluster cost. The lease tables
//! are the real ones; time, the network and the store are simulated.
//!
//! - `forecast`: the kinds of traffic; simulates some of their keys, and adds up what all keys cost.
//! - here: the CPU time of a script call, measured on a real server, the table and the picture.

mod forecast;

use tollgate::{Consistency, Limit, Limiter, Rate};
use tollgate_redis::RedisBuilder;

use self::forecast::{Forecast, TRAFFIC};
use crate::harness::prelude::*;

/// The numbers of replicas that are simulated.
const REPLICAS: [u32; 6] = [1, 4, 16, 32, 100, 1_000];

const STRICT: &str = "strict";
const LEASED: &str = "leased";

/// The keys of a round, each of which is checked twice.
const KEYS: usize = 1_000;
/// Keys that cost more calls per request than this are reported.
const WORSE: f64 = 1.01;

#[derive(Debug, clap::Args)]
pub(crate) struct ScaleArguments {
    #[command(flatten)]
    bench: BenchArguments,
    /// Numbers of replicas: 4,1000
    #[arg(long, value_delimiter = ',', default_values_t = REPLICAS,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replicas: Vec<u32>,
    /// The seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measures the cost of a call, simulates, prints the table and writes the numbers and the picture.
/// Returns an error if a limit was exceeded.
pub(crate) fn run(arguments: &ScaleArguments) -> Result<()> {
    let mut bench = Bench::new(&arguments.bench, [(1, 0), (5, 0)]);
    let server = Server::start(Flavor::Redis);
    let [strict_us, leased_us] = measure_call(&mut bench, &server)?;
    let costs = format!("a call takes {strict_us:.0} us (strict) or {leased_us:.0} us (leased)");
    bench.uses(vec![store_version(&server), costs]);

    let is_quick = arguments.bench.quick;
    let (requests, seconds) = if is_quick { (5e2, 5.0) } else { (1.5e3, 20.0) };
    for traffic in TRAFFIC {
        let keys = traffic.keys();
        for replicas in &arguments.replicas {
            let load = counted(*replicas as usize, "replica");
            if !bench.begins(&format!("{}, {load}", traffic.name)) {
                continue;
            }
            let leased = Forecast::leased(&keys, *replicas, (requests, seconds, arguments.seed));
            for (subject, forecast, call_us) in [
                (STRICT, Forecast::default(), strict_us),
                (LEASED, leased, leased_us),
            ] {
                let figures = forecast.figures(&keys, call_us);
                let row = Row::new(traffic.name, &load, subject, vec![figures]);
                bench.report.rows.push(row);
            }
        }
    }

    let report = bench.publish("scale", complete)?;
    let exceeded = exceeded(&report);
    ensure!(
        exceeded == 0,
        "a limit was exceeded in {}",
        counted(exceeded, "row")
    );
    Ok(())
}

/// Measures the CPU time that a script call takes on a real server, with reading and writing its
/// socket, one call at a time, so that none shares its costs with others. Returns the microseconds of
/// a call of a strict limit, and of a call that leases units.
fn measure_call(bench: &mut Bench, server: &Server) -> Result<[f64; 2]> {
    let runtime = Runtime::CurrentThread.build()?;
    let limiter = runtime.block_on(limiter(server))?;
    let entrant = |limit: &'static str, cost| {
        let (runtime, limiter, mut keys) = (&runtime, &limiter, 0..);
        Entrant::new(limit, "one at a time", move |_| {
            let keys: Vec<u64> = keys.by_ref().take(KEYS).collect();
            runtime.block_on(check(limiter, limit, cost, &keys))?;
            let (us, calls) = (cpu_us(server)?, scripts_run(server));
            runtime.block_on(check(limiter, limit, cost, &keys))?;
            let calls = scripts_run(server) - calls;
            let us = (cpu_us(server)? - us) / float(calls);
            Ok(Figures::from([("cpu_us_per_call", us)]))
        })
    };

    let entrants = vec![entrant(STRICT, 1), entrant(LEASED, 20)];
    let rows = bench.measure("CPU time of a call", &[server.pid()], entrants)?;
    Ok([0, 1].map(|index| rows[index].median("cpu_us_per_call")))
}

async fn limiter(server: &Server) -> Result<Limiter> {
    let store = connect(RedisBuilder::standalone(server.url())).await?;
    let plenty = |name| Limit::token_bucket(name, 1_000, Rate::per_second(1_000));
    let limits = [
        plenty(STRICT),
        plenty(LEASED).consistency(Consistency::Leased),
    ];
    Ok(Limiter::new(store, limits)?)
}

async fn check(limiter: &Limiter, limit: &str, cost: u64, keys: &[u64]) -> Result<()> {
    for key in keys {
        let _decision = limiter.check(limit, *key).cost(cost).await?;
    }
    Ok(())
}

/// The CPU time of the server so far, in microseconds.
fn cpu_us(server: &Server) -> Result<f64> {
    parse_cpu(&info(server, "cpu"))
}

/// Redis counts the time in user space and in the kernel, in seconds.
fn parse_cpu(info: &str) -> Result<f64> {
    let seconds = |name| {
        let seconds = field(info, name).and_then(|seconds| seconds.parse::<f64>().ok());
        seconds.with_context(|| format!("INFO cpu has no number {name}"))
    };
    Ok((seconds("used_cpu_user:")? + seconds("used_cpu_sys:")?) * 1e6)
}

/// Adds the table, the remarks, the notes and the picture: calls per second of the busiest shard, in a
/// panel for each kind of traffic.
fn complete(report: &mut Report) {
    let worse = leased(report).filter(|row| row.median("worst_key_calls_per_request") > WORSE);
    let remark = "worse than strict: {case}, {load}: some keys cost {worst_key_calls_per_request:2} \
                  calls per request";
    let remarks: Vec<String> = worse.map(|row| row.text(remark)).collect();
    report.remarks.extend(remarks);
    report.tables = vec![table(report)];
    report.notes = include_str!("notes.txt");

    let panel = |case: &String| Panel {
        bars: report.case(case).map(bar).collect(),
        title: case.clone(),
    };
    let panels = distinct(leased(report).map(|row| &row.case)).into_iter();
    let panels = panels.map(panel).collect();
    report.draw_panels(
        "Script calls per second of the busiest of 100 shards",
        "Simulated with the real lease tables; strict computed as one call per request.",
        panels,
    );
}

fn bar(row: &Row) -> Bar {
    Bar {
        label: row.load.clone(),
        series: row.subject.clone(),
        value: row.median("busiest_shard_calls_per_s"),
    }
}

/// The number of rows in which more was admitted than a limit allows.
fn exceeded(report: &Report) -> usize {
    leased(report)
        .filter(|row| row.median("over") > 0.0)
        .count()
}

/// The simulated rows of leased limits.
fn leased(report: &Report) -> impl Iterator<Item = &Row> {
    let rows = report.rows.iter().filter(|row| row.subject == LEASED);
    rows.filter(|row| !row.median("calls_per_s").is_nan())
}

fn table(report: &Report) -> Table {
    // Templates for leased limits, and for strict ones in the same case.
    let columns = [
        ("traffic", "{case}", false),
        ("replicas", "{load}", false),
        ("calls/s: strict", "{calls_per_s:,}", true),
        ("leased", "{calls_per_s:,}", false),
        ("per request", "{calls_per_request:3}", false),
        ("worst key", "{worst_key_calls_per_request:3}", false),
        (
            "busiest shard/s: strict",
            "{busiest_shard_calls_per_s:,}",
            true,
        ),
        ("leased", "{busiest_shard_calls_per_s:,}", false),
        ("its CPU: strict", "{busiest_shard_cpu:%1}", true),
        ("leased", "{busiest_shard_cpu:%1}", false),
        ("local", "{local_share:%0}", false),
        ("used", "{utilisation:4}", false),
        ("false denials/M", "{false_denials_per_million:1}", false),
        ("over", "{over:0}", false),
    ];
    let title = "What a fleet costs a cluster of 100 shards, simulated";
    let table = Table::new(title, columns.map(|(head, ..)| head));
    table.with_lines(leased(report), |row| {
        let strict = report.row(&row.case, &row.load, STRICT).unwrap_or(row);
        let cell = |(_, template, is_strict)| {
            let row: &Row = if is_strict { strict } else { row };
            row.text(template)
                .replace(" replicas", "")
                .replace(" replica", "")
        };
        columns.map(cell).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row whose figures are all those of one call for every request.
    fn row(subject: &str, calls: f64, worst: f64) -> Row {
        row_over(subject, calls, worst, 0.0)
    }

    fn row_over(subject: &str, calls: f64, worst: f64, over: f64) -> Row {
        let figures = Figures::from([
            ("calls_per_s", 2_000.0 * calls),
            ("calls_per_request", calls),
            ("worst_key_calls_per_request", worst),
            ("busiest_shard_calls_per_s", 300.0 * calls),
            ("busiest_shard_cpu", 0.03 * calls),
            ("local_share", 1.0 - calls),
            ("utilisation", 0.999),
            ("false_denials_per_million", 0.0),
            ("over", over),
        ]);
        Row::new("many keys", "1,000 replicas", subject, vec![figures])
    }

    #[test]
    fn strict_is_beside_leased_and_keys_that_cost_more_are_reported() {
        let rows = vec![row(STRICT, 1.0, 1.0), row(LEASED, 0.5, 1.144)];
        let mut report = test_report(&[], 0, rows);
        complete(&mut report);
        let shown = report.to_string();
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
        let mut report = test_report(&[], 0, vec![row(STRICT, 1.0, 1.0), row(LEASED, 0.5, 1.0)]);
        complete(&mut report);
        let picture = report.picture;
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

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
        let info = "# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:1.5\r\nused_cpu_sys_children:9\r\n";
        assert!((parse_cpu(info).unwrap() - 1_750_000.0).abs() < 1e-3);
        let error = parse_cpu("# CPU\r\n").unwrap_err().to_string();
        assert_eq!(error, "INFO cpu has no number used_cpu_user:");
    }
}
