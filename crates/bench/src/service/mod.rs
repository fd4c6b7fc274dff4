//! `tollgate serve` compared with servers that return a constant response, all under the same load
//! generator.
//!
//! Every subject is a separate process, so that subjects share no threads, allocator or caches.

mod bare;
mod bodies;
mod request;
mod resp;
mod servers;
mod spread;

pub(crate) use self::bare::{BareArguments, run_bare};
use self::request::{Case, Exchange, Protocol};
use self::servers::Servers;
use crate::harness::prelude::*;

/// `tollgate serve` with the embedded store.
const MEMORY: &str = "tollgate, memory";
/// The same with 1,000 limits, as many of which apply as with [`MEMORY`].
const MANY_LIMITS: &str = "tollgate, 1,000 limits";
/// The same with its dashboard open.
const DASHBOARD: &str = "tollgate, dashboard open";
/// `tollgate serve` with a Redis store and strict limits.
const REDIS: &str = "tollgate, Redis";
/// `tollgate serve` with a Redis store and leased limits.
const LEASED: &str = "tollgate, Redis, leased";
/// A server that returns a constant response, as short as possible.
const BARE: &str = "bare";
/// The same with all headers that Tollgate sends.
const BARE_WITH_HEADERS: &str = "bare, same headers";
/// throttlecrab-server, which always stores in memory.
const THROTTLECRAB: &str = "throttlecrab-server";

/// Measures what only some servers can do. The first of the programs is the one to measure.
type Extra = fn(&mut Bench, &H2load, &[PathBuf]) -> Result<()>;

const EXTRAS: [(&str, Extra); 4] = [
    (resp::NAME, resp::measure),
    (bodies::BODIES, bodies::measure_bodies),
    (bodies::ON_CALL, bodies::measure_on_call),
    (spread::NAME, spread::measure),
];

#[derive(Debug, clap::Args)]
pub(crate) struct ServiceArguments {
    #[command(flatten)]
    bench: BenchArguments,
    /// Path of another tollgate binary to measure in the same run, with the embedded store; can be
    /// repeated
    #[arg(long)]
    beside: Vec<PathBuf>,
    /// Measure only the cost of the dashboard: Tollgate with it open and with it closed
    #[arg(long)]
    dashboard: bool,
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &ServiceArguments) -> Result<()> {
    let programs = [&[arguments.bench.tollgate()?], &*arguments.beside].concat();
    let mut bench = Bench::new(&arguments.bench, [(3, 300), (7, 2_000)]);
    let h2load = H2load::find();
    bench.uses(vec![h2load.version()?]);

    for protocol in [Protocol::Http, Protocol::Grpc] {
        for case in [Case::Allowed, Case::Denied, Case::ThreeLimits] {
            let (protocol_name, load) = (protocol.name(), case.name());
            if !bench.begins(&format!("{protocol_name}: {load}")) {
                continue;
            }
            let exchange = Exchange { protocol, case };
            let servers = Servers::start(&mut bench, arguments.dashboard, &programs, exchange)?;
            let length = bench.length;
            let rows = h2load.measure(&mut bench, protocol_name, load, &servers.present)?;
            let is_closed = servers.viewer.is_some_and(|viewer| viewer.is_finished());
            ensure!(!is_closed, "the dashboard's event stream was closed");
            for (row, server) in rows.iter_mut().zip(&servers.present) {
                row.add(h2load.latencies(server, length)?);
            }
        }
    }

    for (name, measure) in EXTRAS {
        if !arguments.dashboard && bench.begins(name) {
            measure(&mut bench, &h2load, &programs)?;
        }
    }
    bench.publish("service", complete).map(drop)
}

/// Adds the ratios, the tables and the picture.
fn complete(report: &mut Report) {
    report.ratios = ratios(&report.rows);
    resp::compare(report);
    bodies::compare(report);

    let groups = distinct(report.rows.iter().map(|row| (&row.case, &row.load)));
    let tables = groups.into_iter().map(|(case, load)| match case.as_str() {
        spread::NAME => spread::table(report),
        case => numbers(report, case, load),
    });
    report.tables = tables.collect();
    report.notes = include_str!("notes.txt");
    let panel = ("Requests per second: taller is better", REQUESTS);
    report.draw("Requests per second, to one server", &[panel]);
}

/// Ratios of every build of Tollgate to all other subjects in the same case, and to the embedded
/// store for what should be about as fast: leased limits, the embedded store with many limits, and
/// with the dashboard open.
fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for ours in rows.iter().filter(|row| is_ours(&row.subject)) {
        for theirs in rows {
            let is_same = (&ours.case, &ours.load) == (&theirs.case, &theirs.load);
            if is_same && is_compared(&ours.subject, &theirs.subject) {
                let goal = goal(ours, theirs);
                ratios.push(Ratio::new(RatioOf::Medians, REQUESTS, ours, theirs, goal));
            }
        }
    }
    ratios
}

fn is_ours(subject: &str) -> bool {
    ![BARE, BARE_WITH_HEADERS, THROTTLECRAB].contains(&subject)
}

fn is_compared(ours: &str, theirs: &str) -> bool {
    if is_ours(theirs) {
        theirs == MEMORY && [LEASED, MANY_LIMITS, DASHBOARD].contains(&ours)
    } else {
        ours != MANY_LIMITS
    }
}

/// The goal of a ratio, for requests with one limit.
fn goal(ours: &Row, theirs: &Row) -> Option<Goal> {
    let is_http = ours.case == Protocol::Http.name();
    let least = match (ours.subject.as_str(), theirs.subject.as_str()) {
        _ if ours.load == Case::ThreeLimits.name() => return None,
        (MEMORY, BARE) => 0.85,
        (REDIS, BARE) if is_http => 0.54,
        (LEASED | MANY_LIMITS, MEMORY) if is_http => 0.9,
        _ => return None,
    };
    Some(Goal::AtLeast(least))
}

fn numbers(report: &Report, protocol: &str, case: &str) -> Table {
    let rows = report.case(protocol).filter(|row| row.load == case);
    let latencies = [("p50 us", "{p50_us:0}"), ("p99 us", "{p99_us:0}")];
    load_table(&format!("{protocol}: {case}"), rows, &latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(protocol: Protocol, subject: &str, rates: [f64; 3]) -> Row {
        let rounds = rates.map(|rate| Figures::from([(REQUESTS, rate), (CPU, 9.5)]));
        let mut row = Row::new(
            protocol.name(),
            Case::Allowed.name(),
            subject,
            rounds.to_vec(),
        );
        row.add(Figures::from([(P50, 300.0), (P99, 900.0)]));
        row
    }

    #[test]
    fn the_table_shows_medians_and_what_was_missed() {
        let rows = vec![
            row(Protocol::Http, MEMORY, [80_000.0, 90_000.0, 100_000.0]),
            row(Protocol::Http, REDIS, [50_000.0, 51_000.0, 60_000.0]),
            row(Protocol::Http, BARE, [100_000.0, 100_000.0, 80_000.0]),
        ];
        let expected = "\
Example 9000, 2 cores, h2load 1
3 rounds of 1500 ms, medians

POST /v1/check over HTTP/1.1: 1 limit, allowed

subject           requests/s  slowest..fastest  cpu us/request  p50 us  p99 us
tollgate, memory      90,000   80,000..100,000             9.5     300     900
tollgate, Redis       51,000    50,000..60,000             9.5     300     900
bare                 100,000   80,000..100,000             9.5     300     900

Relative to other subjects (lowest and highest round)

                    to                          case              load          figure                       ratio         target
tollgate, memory  bare  POST /v1/check over HTTP/1.1  1 limit, allowed  requests_per_s         0.900x (0.80..1.25)  0.85x or more
tollgate, Redis   bare  POST /v1/check over HTTP/1.1  1 limit, allowed  requests_per_s  MISSED 0.510x (0.50..0.75)  0.54x or more

";
        let mut report = test_report(&["h2load 1"], 1_500, rows);
        complete(&mut report);
        let shown = report.to_string();
        assert_eq!(shown.split_once("- tollgate:").unwrap().0, expected);
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let rows = [
            row(Protocol::Http, MEMORY, [80.0, 90.0, 100.0]),
            row(Protocol::Http, REDIS, [50.0, 50.0, 60.0]),
            row(Protocol::Http, LEASED, [70.0, 72.0, 90.0]),
            row(Protocol::Http, DASHBOARD, [79.0, 89.0, 99.0]),
            row(Protocol::Http, BARE, [100.0, 100.0, 80.0]),
            row(Protocol::Grpc, BARE, [1.0, 1.0, 1.0]),
        ];
        let ratios = ratios(&rows);
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (ratio.ours.as_str(), ratio.goal, ratio.is_missed))
            .collect();
        let expected = [
            (MEMORY, Some(Goal::AtLeast(0.85)), false),
            (REDIS, Some(Goal::AtLeast(0.54)), true),
            (LEASED, Some(Goal::AtLeast(0.9)), true),
            (LEASED, None, false),
            (DASHBOARD, None, false),
            (DASHBOARD, None, false),
        ];
        assert_eq!(found, expected);
    }
}
