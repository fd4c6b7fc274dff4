//! Accuracy, without which speed is worthless: two limiters that share a limit, each under a burst
//! of twice the limit.

use std::sync::Arc;

use anyhow::Result;
use testkit::servers::Server;
use tollgate::store::lease::quantum;

use super::case::used_up;
use super::threads::Subject;
use super::{BURST, EVENTUAL, LEASED, STRICT, connect};
use crate::harness::{Figures, Row, float, together};

/// The admitted requests of a run.
pub(super) const ADMITTED: &str = "admitted";
/// The most that the subject claims to admit; absent if it claims nothing.
pub(super) const BOUND: &str = "bound";

/// The limit that two limiters share.
pub(super) const LIMIT: u32 = 1_000;
/// The requests to each limiter in a run.
const ASKED: u32 = 2 * LIMIT;
const REPLICAS: u32 = 2;

/// Runs the burst with these subjects, all of which share a limit.
pub(super) fn bursts(
    subjects: &[&'static str],
    runs: usize,
    server: &Arc<Server>,
) -> Result<Vec<Row>> {
    let bursts = subjects.iter().map(|name| {
        let prefix = format!("burst-{name}");
        let connect = || connect(name, server, &prefix, used_up(LIMIT), LIMIT, REPLICAS);
        let both = [connect()?, connect()?];
        let runs = (0..runs).map(|run| burst(&both, &format!("run-{run}")));
        let mut row = Row::new(BURST, "2 limiters", name, runs.collect::<Result<_>>()?);
        row.add(
            bound(name)
                .map(|bound| (BOUND, float(bound)))
                .into_iter()
                .collect(),
        );
        Ok(row)
    });
    bursts.collect()
}

fn bound(subject: &str) -> Option<u64> {
    let limit = u64::from(LIMIT);
    match subject {
        STRICT | LEASED => Some(limit),
        EVENTUAL => Some(limit + u64::from(REPLICAS) * quantum(limit, REPLICAS)),
        _ => None,
    }
}

/// How many requests two limiters admit together.
fn burst(both: &[Box<dyn Subject>; 2], key: &str) -> Result<Figures> {
    let ask_all = |index: usize| {
        let decisions = (0..ASKED).map(|_| both[index].ask(key));
        decisions
            .map(|decision| Ok(u64::from(decision?.is_allowed)))
            .sum::<Result<u64>>()
    };
    let (_, admitted) = together(both.len(), ask_all);
    let admitted = admitted.into_iter().sum::<Result<u64>>()?;
    Ok(Figures::from([(ADMITTED, float(admitted))]))
}

#[cfg(test)]
mod tests {
    use super::super::TRYPEMA;
    use super::*;

    #[test]
    fn eventual_limits_may_exceed_by_a_quantum_for_each_replica() {
        assert_eq!(
            [STRICT, LEASED, EVENTUAL, TRYPEMA].map(bound),
            [Some(1_000), Some(1_000), Some(1_100), None]
        );
    }
}
