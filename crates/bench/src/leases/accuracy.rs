//! Accuracy, without which speed is worthless: two limiters that share a limit, each under a burst
//! of twice the limit.

use std::io;
use std::sync::{Arc, Barrier};

use serde::Serialize;
use testkit::servers::Server;
use tollgate::Consistency;
use tollgate::lease::quantum;

use super::Settings;
use super::case::used_up;
use super::entrant::{Subject, SubjectDecision};
use super::subjects::{EVENTUAL, Eventual, Hybrid, LEASED, Leased, STRICT, SharedLimiter, TRYPEMA};

/// The limit that two limiters share.
const LIMIT: u32 = 1_000;
/// The requests to each limiter in a run.
const ASKED: u32 = 2 * LIMIT;
const REPLICAS: u32 = 2;

/// How many requests two limiters of a subject admitted of a shared limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Burst {
    pub(super) subject: &'static str,
    pub(super) limit: u32,
    /// The most that the subject claims to admit; absent if it claims nothing.
    pub(super) bound: Option<u64>,
    /// The admitted requests of each run.
    pub(super) admitted: Vec<u32>,
}

impl Burst {
    /// Whether no run exceeded the bound; `None` without a bound.
    pub(super) fn is_kept(&self) -> Option<bool> {
        self.bound.map(|bound| {
            self.admitted
                .iter()
                .all(|admitted| u64::from(*admitted) <= bound)
        })
    }
}

/// Runs the burst with every subject that shares a limit.
pub(super) fn bursts(settings: &Settings, server: &Arc<Server>) -> io::Result<Vec<Burst>> {
    let url = server.url();
    let mut bursts = Vec::new();
    for name in [STRICT, LEASED, EVENTUAL, TRYPEMA]
        .into_iter()
        .filter(|name| settings.has(name))
    {
        let limit = || used_up(LIMIT);
        let admitted = match name {
            STRICT => runs(settings, || {
                let limit = limit().consistency(Consistency::Strict);
                SharedLimiter::connect(&url, "burst-strict", limit, REPLICAS)
            }),
            LEASED => runs(settings, || {
                Leased::connect(&url, "burst-leased", limit(), REPLICAS)
            }),
            EVENTUAL => runs(settings, || {
                Eventual::connect(&url, "burst-eventual", limit(), REPLICAS)
            }),
            _ => runs(settings, || Hybrid::connect(server, "burst-trypema", LIMIT)),
        }?;
        bursts.push(Burst {
            subject: name,
            limit: LIMIT,
            bound: bound(name),
            admitted,
        });
    }
    Ok(bursts)
}

fn bound(subject: &str) -> Option<u64> {
    let limit = u64::from(LIMIT);
    match subject {
        STRICT | LEASED => Some(limit),
        EVENTUAL => Some(limit + u64::from(REPLICAS) * quantum(limit, REPLICAS)),
        _ => None,
    }
}

fn runs<S: Subject>(
    settings: &Settings,
    connect: impl Fn() -> io::Result<S>,
) -> io::Result<Vec<u32>> {
    let (one, other) = (connect()?, connect()?);
    (0..settings.rounds)
        .map(|run| burst([&one, &other], &format!("run-{run}")))
        .collect()
}

/// How many requests two limiters admit together.
fn burst<S: Subject>(both: [&S; 2], key: &str) -> io::Result<u32> {
    let barrier = Barrier::new(both.len());
    let ask_all = |subject: &S| {
        barrier.wait();
        let mut admitted = 0;
        for _ in 0..ASKED {
            let SubjectDecision { is_allowed, .. } = subject.ask(key)?;
            admitted += u32::from(is_allowed);
        }
        Ok(admitted)
    };
    std::thread::scope(|scope| {
        let threads = both.map(|subject| scope.spawn(move || ask_all(subject)));
        threads
            .into_iter()
            .map(|thread| thread.join().expect("subjects do not panic"))
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_above_the_bound_is_enough() {
        let burst = |bound, admitted| Burst {
            subject: LEASED,
            limit: LIMIT,
            bound,
            admitted,
        };
        assert_eq!(burst(Some(1_000), vec![1_000, 999]).is_kept(), Some(true));
        assert_eq!(
            burst(Some(1_000), vec![1_000, 1_001]).is_kept(),
            Some(false)
        );
        assert_eq!(burst(None, vec![2_000]).is_kept(), None);
        assert_eq!(
            (bound(LEASED), bound(EVENTUAL), bound(TRYPEMA)),
            (Some(1_000), Some(1_100), None)
        );
    }
}
