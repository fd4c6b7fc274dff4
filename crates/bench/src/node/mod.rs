//! What a limiter costs an Express application: Express alone, behind Tollgate in its process and as
//! a client of the service, and behind the limiters that most applications use, all on Redis; and
//! what one call costs inside the process.

mod calls;
mod report;
mod subject;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use self::subject::Subject;
use crate::harness::h2load::{CPU, RATE};
use crate::harness::{
    Bench, H2load, OutputArguments, ServerUnderLoad, chosen_values, tollgate_program,
};

/// The cases of rows: applications over sockets, and calls in one process.
const APPLICATIONS: &str = "GET / of an Express application";
const CALLS: &str = "Calls in one process";
const LOAD: &str = "one hot key";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Measure only this subject, besides Express alone; can be repeated
    #[arg(long, value_enum)]
    subject: Vec<Subject>,
    /// The tollgate binary; defaults to the one beside this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
    /// The directory of the Node package
    #[arg(long, default_value = "clients/node")]
    package: PathBuf,
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tollgate = tollgate_program(arguments.tollgate.as_ref())?;
    let package = arguments.package.canonicalize().unwrap_or_default();
    ensure!(
        package.join("dist/esm/index.js").is_file(),
        "the Node package is not built; run `npm ci`, `npm run build` and `npm run build:native` in {}",
        arguments.package.display()
    );

    let mut bench = Bench::new(&arguments.output, 2, [(3, 1_000), (11, 3_000)]);
    let h2load = H2load::find();
    bench.uses(vec![h2load.version()?, subject::node_version()?]);

    bench.progress.step("applications");
    let mut subjects = chosen_values(&arguments.subject);
    if !subjects.contains(&Subject::Express) {
        subjects.insert(0, Subject::Express);
    }
    let servers = subjects.iter();
    let servers = servers.map(|subject| subject.start(&package, &tollgate));
    let servers: Vec<ServerUnderLoad> = servers.collect::<Result<_>>()?;
    h2load.measure(&mut bench, APPLICATIONS, LOAD, &servers)?;
    drop(servers);

    bench.progress.step("calls");
    calls::measure(&mut bench, &package)?;

    let panels = [
        ("Requests per second: taller is better", RATE),
        (
            "Microseconds of a core per request, in the application: shorter is better",
            CPU,
        ),
        ("Nanoseconds of a call: shorter is better", calls::NS),
    ];
    let title = "An Express application, and what a rate limit costs it";
    bench.publish("node", title, &panels, report::complete)
}
