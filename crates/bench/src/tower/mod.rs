//! What a layer costs an axum application: a hello by itself, behind Tollgate's layer and behind
//! `tower_governor`'s, measured over sockets as processes of their own, and called without sockets
//! in this one.

mod layers;

pub(crate) use self::layers::{HelloArguments, run_hello};
use self::layers::{LayerCaller, is_local, start};
use crate::harness::prelude::*;

/// The cases of rows: servers over sockets, and calls in this process.
const SERVERS: &str = "GET / over HTTP/1.1";
const CALLS: &str = "Calls in one process, one thread";

/// What becomes of every request.
const ALLOWED: &str = "all allowed";
const DENIED: &str = "all denied";
const CASES: [&str; 2] = [ALLOWED, DENIED];

/// A handler without a layer.
const BARE: &str = "bare axum";
/// Tollgate's layer on memory with default settings: every response has all header fields.
const MEMORY: &str = "tollgate";
/// The same without header fields on success.
const SILENT: &str = "tollgate, no fields";
/// Tollgate's layer on Redis.
const LEASED: &str = "leased";
const STRICT: &str = "strict";
/// `tower_governor` with default settings: no header fields on success.
const GOVERNOR: &str = "tower_governor";
/// The same with `use_headers`: two fields.
const GOVERNOR_FIELDS: &str = "tower_governor, fields";
const SUBJECTS: [&str; 7] = [
    BARE,
    MEMORY,
    SILENT,
    LEASED,
    STRICT,
    GOVERNOR,
    GOVERNOR_FIELDS,
];

/// Nanoseconds of a call.
const NS: &str = "ns";
/// What the layer adds to the bare call of the same round.
const ADDED: &str = "added_ns";

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let calls_ms = if arguments.quick { 20 } else { 200 };
    let mut bench = Bench::new(arguments, [(3, 300), (11, 1_500)]);
    let h2load = H2load::find();
    bench.uses(vec![h2load.version()?]);

    for case in CASES {
        if bench.begins(&format!("servers, {case}")) {
            let servers = SUBJECTS.map(|subject| start(subject, case));
            let servers: Vec<ServerUnderLoad> = servers.into_iter().collect::<Result<_>>()?;
            h2load.measure(&mut bench, SERVERS, case, &servers)?;
        }
        if bench.begins(&format!("calls, {case}")) {
            measure_calls(&mut bench, case, Duration::from_millis(calls_ms))?;
        }
    }
    bench.publish("tower", complete).map(drop)
}

/// Measures the subjects that can be called in this process.
fn measure_calls(bench: &mut Bench, case: &str, length: Duration) -> Result<()> {
    // As many calls for every subject as a bare service makes in this time.
    let mut bare = LayerCaller::new(BARE, case)?;
    let calls = calibrate(length, |calls| Ok(bare.round(calls)?[NS]))?;

    let entrants = SUBJECTS.into_iter().filter(|subject| is_local(subject));
    let entrants = entrants.map(|subject| {
        let mut caller = LayerCaller::new(subject, case)?;
        Ok(Entrant::new(subject, case, move |_| caller.round(calls)))
    });
    add_difference(bench.measure(CALLS, &[], entrants.collect::<Result<_>>()?)?);
    Ok(())
}

/// Adds to each round what the layer adds to the bare call of the same round.
fn add_difference(rows: &mut [Row]) {
    let bare = rows.iter().find(|row| row.subject == BARE);
    let bare = bare.map(|row| row.rounds.clone()).unwrap_or_default();
    for row in rows {
        for (round, bare) in row.rounds.iter_mut().zip(&bare) {
            round.insert(ADDED, round[NS] - bare[NS]);
        }
        *row = Row::new(&row.case, &row.load, &row.subject, row.rounds.clone());
    }
}

/// Adds the ratios, the tables and the picture.
fn complete(report: &mut Report) {
    for case in distinct(report.rows.iter().map(|row| row.load.clone())) {
        compare(report, &case);
        let rows = |place| {
            let rows = report.case(place);
            rows.filter(|row| row.load == case)
        };
        let servers = load_table(&format!("{SERVERS}, {case}"), rows(SERVERS), &[]);
        let columns = [
            ("subject", "{subject}"),
            ("ns/call", "{ns:0}"),
            ("fastest..slowest", "{ns:..0}"),
            ("added ns", "{added_ns:0}"),
        ];
        let calls = Table::from_rows(format!("{CALLS}, {case}"), rows(CALLS), &columns);
        report.tables.extend([servers, calls]);
    }

    report.notes = include_str!("notes.txt");
    report.draw(
        "An axum hello, and what a rate limit costs it",
        &[
            ("Requests per second: taller is better", REQUESTS),
            (
                "Microseconds of a core per request, in the server: shorter is better",
                CPU,
            ),
            (
                "Nanoseconds that a layer adds to a call, without sockets: shorter is better",
                ADDED,
            ),
        ],
    );
}

/// All servers relative to the bare one, and the layers to each other: as servers, and without the
/// call itself. Layers without header fields are compared with each other, those with fields too,
/// and both with their default settings.
fn compare(report: &mut Report, case: &str) {
    let layers = [
        (MEMORY, GOVERNOR),
        (MEMORY, GOVERNOR_FIELDS),
        (SILENT, GOVERNOR),
    ];
    let mut compare = |place, figure, (ours, theirs): (&str, &str)| {
        let pair = [(case, ours), (case, theirs)];
        let goal = goal(case, figure, ours, theirs);
        report.compare(RatioOf::Rounds, figure, place, pair, goal);
    };

    let to_bare = SUBJECTS[1..].iter().map(|subject| (*subject, BARE));
    for pair in to_bare.chain(layers) {
        compare(SERVERS, REQUESTS, pair);
        compare(SERVERS, CPU, pair);
    }
    for pair in layers {
        compare(CALLS, ADDED, pair);
    }
}

/// A layer may cost a twentieth of a bare server's requests, and less than the other layer that
/// sends the same.
fn goal(case: &str, figure: &str, ours: &str, theirs: &str) -> Option<Goal> {
    match (figure, ours, theirs) {
        _ if case != ALLOWED => None,
        (REQUESTS, MEMORY, BARE) => Some(Goal::AtLeast(0.95)),
        (ADDED, MEMORY, GOVERNOR_FIELDS) | (ADDED, SILENT, GOVERNOR) => Some(Goal::AtMost(1.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let server = |subject: &str, rates: [f64; 3]| {
            let rounds =
                rates.map(|rate| Figures::from([(REQUESTS, rate), (CPU, 500_000.0 / rate)]));
            Row::new(SERVERS, ALLOWED, subject, rounds.to_vec())
        };
        let calls = |subject: &str, ns: [f64; 3]| {
            let rounds = ns.map(|ns| Figures::from([(NS, ns)]));
            Row::new(CALLS, ALLOWED, subject, rounds.to_vec())
        };
        let mut rows = vec![
            server(BARE, [50_000.0, 60_000.0, 40_000.0]),
            server(MEMORY, [45_000.0, 58_000.0, 39_000.0]),
        ];
        let mut called = [
            calls(BARE, [100.0, 110.0, 90.0]),
            calls(MEMORY, [200.0, 210.0, 195.0]),
            calls(GOVERNOR_FIELDS, [300.0, 310.0, 200.0]),
        ];
        add_difference(&mut called);
        rows.extend(called);
        test_report(&["h2load 1"], 1_500, rows)
    }

    #[test]
    fn the_table_shows_medians_and_what_was_asked() {
        let expected = "\
Example 9000, 2 cores, h2load 1
3 rounds of 1500 ms, medians

GET / over HTTP/1.1, all allowed

subject    requests/s  slowest..fastest  cpu us/request
bare axum      50,000    40,000..60,000            10.0
tollgate       45,000    39,000..58,000            11.1

Calls in one process, one thread, all allowed

subject                 ns/call  fastest..slowest  added ns
bare axum                   100           90..110         0
tollgate                    200          195..210       100
tower_governor, fields      300          200..310       200

Relative to other subjects (lowest and highest round)

                              to                              case         load          figure                ratio         target
tollgate               bare axum               GET / over HTTP/1.1  all allowed  requests_per_s  0.967x (0.90..0.97)  0.95x or more
tollgate               bare axum               GET / over HTTP/1.1  all allowed          cpu_us  1.034x (1.03..1.11)              -
tollgate  tower_governor, fields  Calls in one process, one thread  all allowed        added_ns  0.500x (0.50..0.95)     1x or less

";
        let mut report = report();
        complete(&mut report);
        let shown = report.to_string();
        assert_eq!(shown.split_once("- bare axum:").unwrap().0, expected);
    }

    #[test]
    fn goals_are_those_of_allowed_requests() {
        let goal = |case, figure, theirs| goal(case, figure, MEMORY, theirs);
        assert_eq!(goal(ALLOWED, REQUESTS, BARE), Some(Goal::AtLeast(0.95)));
        let to_other = |case| goal(case, ADDED, GOVERNOR_FIELDS);
        assert_eq!(to_other(ALLOWED), Some(Goal::AtMost(1.0)));
        assert_eq!(to_other(DENIED), None);
    }
}
