//! Limits on a shared server that are decided from memory: leased and eventual limits compared with
//! the embedded store, with strict limits and with the trypema crate, in speed and in accuracy.

mod accuracy;
mod case;
mod report;
mod threads;
mod tollgate;
mod trypema;

use std::sync::Arc;

use ::tollgate::{Consistency, Limit};
use anyhow::Result;
use testkit::servers::Server;

use self::case::Case;
use self::threads::Subject;
use self::tollgate::{TollgateSubject, strict_entrant};
use self::trypema::Hybrid;
use crate::harness::callers::NS;
use crate::harness::server::{Kind, version};
use crate::harness::{Bench, Entrant, Figures, OutputArguments, chosen};

const MEMORY: &str = "memory";
const LEASED: &str = "leased";
const EVENTUAL: &str = "eventual";
const STRICT: &str = "strict";
const TRYPEMA: &str = "trypema-hybrid";

/// The case of rows about accuracy.
const BURST: &str = "burst";
/// The numbers of threads that are measured.
const THREADS: [usize; 2] = [1, 2];
/// One caller, and the number of callers with the highest throughput.
const CALLERS: [usize; 2] = [1, CROWD];
const CROWD: usize = 256;

/// The share of decisions that did not wait for the store.
const LOCAL: &str = "local";
/// The share of the time that threads waited for a core. It is subtracted from the times, but
/// caches get cold meanwhile.
const WAITED: &str = "waited";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// The store server to start
    #[arg(long, value_enum, default_value = "redis")]
    flavor: Kind,
    /// Measure only this subject; can be repeated
    #[arg(long, value_parser = [MEMORY, LEASED, EVENTUAL, STRICT, TRYPEMA])]
    subject: Vec<String>,
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let steps = Case::ALL.len() + 1;
    let mut bench = Bench::new(&arguments.output, steps, [(3, 60), (7, 250)]);
    let server = Arc::new(Server::start(arguments.flavor.flavor()));
    bench.uses(vec![version(&server)]);

    for case in Case::ALL {
        bench.progress.step(&case.to_string());
        let entrants = entrants(arguments, &server, case)?;
        let rows = bench.measure(&case.to_string(), &[server.pid()], entrants)?;
        for row in rows.iter_mut().filter(|row| row.subject == STRICT) {
            row.add(Figures::from([(LOCAL, 0.0), (WAITED, 0.0)]));
        }
    }
    bench.progress.step("two limiters that share a limit");
    let sharing = chosen(&arguments.subject, [STRICT, LEASED, EVENTUAL, TRYPEMA]);
    let bursts = accuracy::bursts(&sharing, bench.rounds, &server)?;
    bench.report.rows.extend(bursts);

    let panels = [("Nanoseconds per decision: shorter is better", NS)];
    let title = "Nanoseconds per decision on a hot key";
    bench.publish("leases", title, &panels, report::complete)
}

/// All subjects of a case, on one server, each with its own counters.
fn entrants(
    arguments: &Arguments,
    server: &Arc<Server>,
    case: Case,
) -> Result<Vec<Entrant<'static>>> {
    let mut entrants = Vec::new();
    for threads in THREADS {
        for name in chosen(&arguments.subject, [MEMORY, LEASED, EVENTUAL, TRYPEMA]) {
            let prefix = format!("{name}-{case}-{threads}");
            let subject = connect(name, server, &prefix, case.limit(), case.budget(), 1)?;
            entrants.push(threads::entrant(name, subject, case, threads)?);
        }
    }
    for name in chosen(&arguments.subject, [STRICT]) {
        for callers in CALLERS {
            let prefix = format!("{name}-{case}-{callers}");
            entrants.push(strict_entrant(&server.url(), &prefix, case, callers)?);
        }
    }
    Ok(entrants)
}

/// Creates a subject with its own runtime, so that the tasks of subjects do not affect each other.
/// `budget` is the number of units that the limit allows at once.
fn connect(
    name: &str,
    server: &Arc<Server>,
    prefix: &str,
    limit: Limit,
    budget: u32,
    replicas: u32,
) -> Result<Box<dyn Subject>> {
    let consistency = match name {
        MEMORY => return Ok(Box::new(TollgateSubject::in_memory(limit)?)),
        TRYPEMA => return Ok(Box::new(Hybrid::connect(server, prefix, budget)?)),
        LEASED => Consistency::Leased,
        EVENTUAL => Consistency::Eventual,
        _ => Consistency::Strict,
    };
    let (url, limit) = (server.url(), limit.consistency(consistency));
    let subject = TollgateSubject::connect(&url, prefix, limit, replicas)?;
    Ok(Box::new(subject))
}
