//! What a cell of the experiment is, and the bound that is claimed for it.

use clap::ValueEnum;
use serde::Serialize;

use super::limits::Limit;

/// How the replicas count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Strict,
    Leased,
    Eventual,
    /// Every replica for itself: wrong on purpose, to show what the others prevent.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Case {
    /// Every number of replicas under every load, on one hot key of 1,000/s.
    Grid,
    /// The loads for which figures are asked.
    Targets,
    /// A cold key that all replicas meet at once, of which nothing comes back.
    Cold,
    /// All requests go to one replica, and to the next one every 200 ms.
    Rotating,
    /// Requests at both sides of a window's edge, in fixed and in sliding windows.
    Edge,
    /// Replicas whose clocks are wrong, or run too fast or too slowly.
    Skew,
    /// A replica is killed in the middle.
    Killed,
    /// The store forgets its scripts again and again.
    Flush,
    /// The store is started anew, empty, in the middle.
    Restart,
    /// A thousand keys, a few of which are asked for most.
    Zipf,
    /// Requests for one unit, for all there can be, and for one more than that.
    Costs,
}

/// What the replicas share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Topology {
    /// One Redis.
    Single,
    /// A cluster of three.
    Cluster,
}

/// What is asked for beside strictness. On a slow or busy machine it may be missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Targets {
    pub(super) utilisation_min: Option<f64>,
    pub(super) calls_per_admitted_max: Option<f64>,
    pub(super) calls_per_denied_max: Option<f64>,
}

/// One run of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    pub(super) topology: Topology,
    pub(super) limit: Limit,
    /// What is offered, in multiples of what the limit allows.
    pub(super) load: f64,
    pub(super) length_ms: u64,
    pub(super) targets: Targets,
}

impl Mode {
    /// As in the configuration.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Leased => "leased",
            Self::Eventual => "eventual",
            Self::Local => "local",
        }
    }
}

impl Case {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Targets => "targets",
            Self::Cold => "cold",
            Self::Rotating => "rotating",
            Self::Edge => "edge",
            Self::Skew => "skew",
            Self::Killed => "killed",
            Self::Flush => "flush",
            Self::Restart => "restart",
            Self::Zipf => "zipf",
            Self::Costs => "costs",
        }
    }

    /// Whether replicas or the store are not afterwards what they were before.
    pub(super) const fn spoils(self) -> bool {
        matches!(self, Self::Skew | Self::Killed | Self::Restart)
    }
}

impl Cell {
    /// How many units more than the limit allows may ever pass: none, but
    ///
    /// - `eventual`: each of N replicas may let through Q = max(1, limit / (10 x expected
    ///   replicas)) that the store has not heard of;
    /// - a store that comes back empty has forgotten one burst.
    ///
    /// Nothing bounds replicas that count each for itself but the sum of their limits, so nothing
    /// is claimed for them.
    pub(super) fn bound(&self) -> Option<u64> {
        let replicas = u64::try_from(self.replicas).unwrap_or(u64::MAX);
        let untold = match self.mode {
            Mode::Strict | Mode::Leased => 0,
            Mode::Eventual => replicas * (self.limit.capacity() / (10 * replicas)).max(1),
            Mode::Local => return None,
        };
        let forgotten = if self.case == Case::Restart {
            self.limit.capacity()
        } else {
            0
        };
        Some(untold + forgotten)
    }

    /// How it is called in one line.
    pub(super) fn name(&self) -> String {
        let place = if self.topology == Topology::Cluster {
            ", cluster"
        } else {
            ""
        };
        format!("{} {}{place}", self.case.name(), self.limit.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits;
    use super::*;

    fn cell(mode: Mode, case: Case, replicas: usize, limit: Limit) -> Cell {
        Cell {
            case,
            mode,
            replicas,
            topology: Topology::Single,
            limit,
            load: 2.0,
            length_ms: 1,
            targets: Targets::default(),
        }
    }

    #[test]
    fn bounds_follow_the_formulas() {
        let bound = |mode, case, replicas, limit| cell(mode, case, replicas, limit).bound();
        let thousand = limits::PER_SECOND_1000;
        assert_eq!(bound(Mode::Strict, Case::Grid, 4, thousand), Some(0));
        assert_eq!(bound(Mode::Leased, Case::Restart, 4, thousand), Some(1_000));
        assert_eq!(bound(Mode::Eventual, Case::Grid, 4, thousand), Some(100));
        assert_eq!(bound(Mode::Eventual, Case::Grid, 16, thousand), Some(96));
        assert_eq!(
            bound(Mode::Eventual, Case::Targets, 8, limits::PER_SECOND_10),
            Some(8)
        );
        assert_eq!(
            bound(Mode::Eventual, Case::Restart, 4, thousand),
            Some(1_100)
        );
        assert_eq!(bound(Mode::Local, Case::Grid, 4, thousand), None);
    }
}
