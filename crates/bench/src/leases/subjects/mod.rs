//! The subjects. Each has a separate runtime, so that their tasks do not affect each other.

mod tollgate;
mod trypema;

use std::io;
use std::sync::Arc;

use testkit::servers::Server;

use super::Settings;
use super::case::Case;
use super::crowd::StrictCallers;
use super::entrant::{Entrant, Subject, ThreadedSubject};

pub(super) use self::tollgate::{Eventual, Leased, SharedLimiter};
pub(super) use self::trypema::Hybrid;

pub(super) const MEMORY: &str = "memory";
pub(super) const LEASED: &str = "leased";
pub(super) const EVENTUAL: &str = "eventual";
pub(super) const STRICT: &str = "strict";
pub(super) const TRYPEMA: &str = "trypema-hybrid";

/// The subjects that can be selected by name.
pub(super) const SUBJECTS: [&str; 5] = [MEMORY, LEASED, EVENTUAL, STRICT, TRYPEMA];

/// The numbers of threads that are measured.
const THREADS: [u32; 2] = [1, 2];
/// One caller, and the number of callers with the highest throughput.
const CALLERS: [u32; 2] = [1, CROWD];
pub(super) const CROWD: u32 = 256;

/// All subjects of a case, on one server, each with its own counters.
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
        entrants.push(Box::new(StrictCallers::connect(
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
    Ok(Box::new(ThreadedSubject::new(subject?, case, threads)?))
}

/// The runtime of a subject's tasks.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// What a reader needs to know to interpret the numbers.
pub(super) const NOTES: [&str; 8] = [
    "memory, leased, eventual: limiter.check(\"api\", key).try_now() on operating system \
     threads, one key, a token bucket that never denies or one that is used up; if the decision \
     needs a store call, the thread waits for the store, and that time counts. memory is the \
     embedded store; the others share one server.",
    "strict: limiter.check(\"api\", key).await by tasks on a runtime with two workers, on the same \
     server. Its time per decision is that of all tasks together.",
    "trypema-hybrid: try_inc, then inc().await where that has no result, on the same server; a \
     sliding window of one hour with the same budget and the default sync interval. It needs a \
     server of version 7.2 or later.",
    "Every subject starts a round without leases, because they are returned after each round: the \
     first store calls are part of the time. The store timeout is one second instead of 10 ms, so \
     that a busy machine makes stores slow but does not cause fallback decisions.",
    "local: share of decisions made without waiting for the store. calls: script calls.",
    "Two threads compete for one lock. Where other programs keep them from running in parallel, \
     they are as fast as one thread, so on a busy machine their times vary widely and their ratios \
     are not reliable.",
    "Each round begins with another subject. A ratio is that of decisions per second, of the \
     medians, followed by the lowest and the highest ratio of the rounds.",
    "Burst: two limiters with separate stores and runtimes, as in two processes. One thread each \
     sends twice the limit, both starting together, with the same key for both and a new key in \
     each run.",
];
