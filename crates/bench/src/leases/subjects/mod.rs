//! What is measured. Everybody has a runtime of its own, so that nobody's tasks are in another's
//! way.

mod tollgate;
mod trypema;

use std::io;
use std::sync::Arc;

use testkit::servers::Server;

use super::Settings;
use super::case::Case;
use super::crowd::Crowd;
use super::entrant::{ByThreads, Entrant, Subject};

pub(super) use self::tollgate::{Eventual, Leased, Shared};
pub(super) use self::trypema::Hybrid;

pub(super) const MEMORY: &str = "memory";
pub(super) const LEASED: &str = "leased";
pub(super) const EVENTUAL: &str = "eventual";
pub(super) const STRICT: &str = "strict";
pub(super) const TRYPEMA: &str = "trypema-hybrid";

/// What can be chosen by name.
pub(super) const SUBJECTS: [&str; 5] = [MEMORY, LEASED, EVENTUAL, STRICT, TRYPEMA];

/// The numbers of threads that are measured.
const THREADS: [u32; 2] = [1, 2];
/// A lone caller, and the crowd that shares trips best.
const CALLERS: [u32; 2] = [1, CROWD];
pub(super) const CROWD: u32 = 256;

/// Everybody who is measured in this case, on one server, each on counters of its own.
pub(super) fn entrants(
    settings: &Settings,
    server: &Arc<Server>,
    case: Case,
) -> io::Result<Vec<Box<dyn Entrant>>> {
    let mut entrants = Vec::new();
    for threads in THREADS {
        for name in [MEMORY, LEASED, EVENTUAL, TRYPEMA]
            .into_iter()
            .filter(|name| settings.has(name))
        {
            let (url, prefix) = (server.url(), format!("{name}-{case}-{threads}"));
            entrants.push(match name {
                MEMORY => by_threads(tollgate::Memory::new(case.limit()), case, threads)?,
                LEASED => by_threads(
                    Leased::connect(&url, &prefix, case.limit(), 1),
                    case,
                    threads,
                )?,
                EVENTUAL => by_threads(
                    Eventual::connect(&url, &prefix, case.limit(), 1),
                    case,
                    threads,
                )?,
                _ => by_threads(
                    Hybrid::connect(server, &prefix, case.budget()),
                    case,
                    threads,
                )?,
            });
        }
    }
    for callers in CALLERS.into_iter().filter(|_| settings.has(STRICT)) {
        let prefix = format!("{STRICT}-{case}-{callers}");
        entrants.push(Box::new(Crowd::connect(
            &server.url(),
            &prefix,
            case,
            callers,
        )?));
    }
    Ok(entrants)
}

fn by_threads<S: Subject>(
    subject: io::Result<S>,
    case: Case,
    threads: u32,
) -> io::Result<Box<dyn Entrant>> {
    Ok(Box::new(ByThreads::new(subject?, case, threads)?))
}

/// What the tasks of a subject run on.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// What a reader has to know to judge the numbers.
pub(super) const NOTES: [&str; 8] = [
    "memory, leased, eventual: limiter.check(\"api\", key).now_or_never() on threads of the operating system, one key, a \
     token bucket that never refuses or one that is used up; where the answer is not there at once, the thread waits for \
     the store, and that time counts. Memory is the embedded store; the others share one server.",
    "strict: limiter.check(\"api\", key).await by tasks on a runtime of two workers, on the same server. Its time per \
     decision is that of all of them together.",
    "trypema-hybrid: try_inc, then inc().await where that gives nothing, on the same server; a sliding window of an hour \
     of the same budget, its sync interval as it comes. It asks for a server of version 7.2 or later.",
    "Everybody starts a round with nothing in hand, because what was taken is given back after each: the first trips are \
     part of the time. The deadline of the stores is a second instead of 10 ms, so that a busy machine makes them slow and \
     not wrong.",
    "Local is the share of answers that were there without waiting for the store; calls are script calls.",
    "Two threads want one lock: where other programs keep them from running at the same time they are as fast as one, so on \
     a busy machine their times are of two kinds and their ratios say little.",
    "Each round begins with another subject. A ratio is that of decisions in a second, of the medians; in brackets, of the \
     rounds, the lowest and the highest.",
    "The burst: two limiters with stores and runtimes of their own, as two processes would have, each asked twice the limit \
     by one thread, both starting together; the same key for both, another for each run.",
];
