//! What a layer costs an axum application: a hello by itself, behind Tollgate's layer and behind
//! `tower_governor`'s, measured over sockets as processes of their own, and called without sockets
//! in this one.

mod calls;
mod hello;
mod report;
mod subject;

use std::time::Duration;

use self::calls::{ADDED, Caller, NS};
pub(crate) use self::hello::{HelloArguments, run_hello};
use self::subject::{Case, Subject};
use crate::harness::h2load::{CPU, RATE};
use crate::harness::{
    Bench, Entrant, H2load, OutputArguments, Row, ServerUnderLoad, calibrate, chosen_values,
};
use anyhow::Result;
use clap::ValueEnum as _;

/// The cases of rows: servers over sockets, and calls in this process.
const SERVERS: &str = "GET / over HTTP/1.1";
const CALLS: &str = "Calls in one process, one thread";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Measure only this case; can be repeated
    #[arg(long, value_enum)]
    case: Vec<Case>,
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let calls_ms = if arguments.output.quick { 20 } else { 200 };
    let cases = chosen_values(&arguments.case);
    let mut bench = Bench::new(&arguments.output, cases.len() * 2, [(3, 300), (11, 1_500)]);
    let h2load = H2load::find();
    bench.uses(vec![h2load.version()?]);

    for case in cases {
        bench.progress.step(&format!("servers, {}", case.name()));
        let subjects = Subject::value_variants().iter();
        let servers = subjects.map(|subject| hello::start(*subject, case));
        let servers: Vec<ServerUnderLoad> = servers.collect::<Result<_>>()?;
        h2load.measure(&mut bench, SERVERS, case.name(), &servers)?;
        drop(servers);

        bench.progress.step(&format!("calls, {}", case.name()));
        measure_calls(&mut bench, case, Duration::from_millis(calls_ms))?;
    }

    let panels = [
        ("Requests per second: taller is better", RATE),
        (
            "Microseconds of a core per request, in the server: shorter is better",
            CPU,
        ),
        (
            "Nanoseconds that a layer adds to a call, without sockets: shorter is better",
            ADDED,
        ),
    ];
    let title = "An axum hello, and what a rate limit costs it";
    bench.publish("tower", title, &panels, report::complete)
}

/// Measures the subjects that can be called in this process.
fn measure_calls(bench: &mut Bench, case: Case, length: Duration) -> Result<()> {
    let mut callers = Caller::all(case)?;
    let Some(first) = callers.first_mut() else {
        return Ok(());
    };
    // As many calls for every subject as a bare service makes in this time.
    let calls = calibrate(length, |calls| Ok(first.round(calls)?[NS]))?;

    let entrants = callers.iter_mut().map(|caller| {
        let name = caller.subject.name();
        Entrant::new(name, case.name(), move |_| caller.round(calls))
    });
    add_difference(bench.measure(CALLS, &[], entrants.collect())?);
    Ok(())
}

/// Adds to each round what the layer adds to the bare call of the same round.
fn add_difference(rows: &mut [Row]) {
    let bare = rows
        .iter()
        .find(|row| row.subject == Subject::Bare.name())
        .map(|row| row.rounds.clone())
        .unwrap_or_default();
    for row in rows {
        for (round, bare) in row.rounds.iter_mut().zip(&bare) {
            round.insert(ADDED, round[NS] - bare[NS]);
        }
        *row = Row::new(&row.case, &row.load, &row.subject, row.rounds.clone());
    }
}
