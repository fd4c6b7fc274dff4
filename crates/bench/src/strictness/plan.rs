//! A cell of the experiment, and the bound that is claimed for it.

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
    /// Every replica counts separately: wrong on purpose, to show what the other modes prevent.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Case {
    /// Every number of replicas under every load, on one hot key of 1,000/s.
    Grid,
    /// The loads that have targets.
    Targets,
    /// A cold key that all replicas use at the same time, without refill.
    Cold,
    /// All requests go to one replica, and to the next one every 200 ms.
    Rotating,
    /// Requests on both sides of a window edge, in fixed and in sliding windows.
    Edge,
    /// Replicas whose clocks are off, or run too fast or too slowly.
    Skew,
    /// A replica is killed halfway.
    Killed,
    /// The scripts of the store are flushed repeatedly.
    Flush,
    /// The store is restarted empty halfway.
    Restart,
    /// A thousand keys, a few of which get most requests.
    Zipf,
    /// Requests for one unit, for the whole capacity, and for one unit more than that.
    Costs,
}

/// The store that the replicas share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Topology {
    /// One Redis.
    Single,
    /// A cluster of three.
    Cluster,
}

/// Targets other than strictness. On a slow or busy machine they may be missed.
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
    /// The offered load, in multiples of what the limit allows.
    pub(super) load: f64,
    pub(super) length_ms: u64,
    pub(super) targets: Targets,
}

impl Mode {
    /// The mode's name in the configuration.
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

    /// Whether the case changes replicas or the store, so that the next cell cannot use them.
    pub(super) const fn is_destructive(self) -> bool {
        matches!(self, Self::Skew | Self::Killed | Self::Restart)
    }
}

impl Cell {
    /// The most units that may be admitted above the limit: none, except that
    ///
    /// - with `eventual`, each of N replicas may admit Q = max(1, limit / (10 x expected replicas))
    ///   units that the store does not know of;
    /// - a store that restarts empty has forgotten one burst.
    ///
    /// For replicas that count separately nothing is claimed: only the sum of their limits bounds
    /// them.
    pub(super) fn bound(&self) -> Option<u64> {
        let replicas = u64::try_from(self.replicas).unwrap_or(u64::MAX);
        let unreported = match self.mode {
            Mode::Strict | Mode::Leased => 0,
            Mode::Eventual => replicas * (self.limit.capacity() / (10 * replicas)).max(1),
            Mode::Local => return None,
        };
        let forgotten = if self.case == Case::Restart {
            self.limit.capacity()
        } else {
            0
        };
        Some(unreported + forgotten)
    }

    /// The name of the cell in one line.
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
