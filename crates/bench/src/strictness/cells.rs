//! The cells of the experiment in the order in which they run, and the bound of each by formula.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use super::{Arguments, limits};

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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    pub(super) topology: Topology,
    pub(super) limit: &'static str,
    /// The offered load, in multiples of what the limit allows.
    pub(super) load: f64,
    pub(super) length_ms: u64,
    pub(super) targets: Targets,
}

/// The mode's name in the configuration and on the command line.
impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

impl Case {
    /// Whether the case changes replicas or the store, so that the next cell cannot use them.
    pub(super) const fn is_destructive(self) -> bool {
        matches!(self, Self::Skew | Self::Killed | Self::Restart)
    }

    /// Whether the load of a case is a multiple of the limit's rate. It has another meaning in cases
    /// without refill and in cases with many keys.
    const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::Grid | Self::Rotating | Self::Skew | Self::Killed | Self::Flush | Self::Restart
        )
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
        let capacity = limits::quota(self.limit).limit();
        let replicas = u64::try_from(self.replicas).unwrap_or(u64::MAX);
        let unreported = match self.mode {
            Mode::Strict | Mode::Leased => 0,
            Mode::Eventual => replicas * (capacity / (10 * replicas)).max(1),
            Mode::Local => return None,
        };
        let is_forgotten = self.case == Case::Restart;
        Some(unreported + u64::from(is_forgotten) * capacity)
    }

    /// The case, the limit and the store in one line.
    pub(super) fn name(&self) -> String {
        let place = match self.topology {
            Topology::Single => "",
            Topology::Cluster => ", cluster",
        };
        format!("{} {}{place}", self.case, self.limit)
    }
}

/// With its mode and replicas.
impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}, {}, {} replicas",
            self.name(),
            self.mode,
            self.replicas
        )
    }
}

/// The cells of one case, by default.
struct CaseSeries {
    /// All but the mode, the number of replicas and the load.
    cell: Cell,
    modes: &'static [Mode],
    replicas: &'static [usize],
    loads: &'static [f64],
    /// Replicas and loads of a quick run, if they are not the usual ones.
    quick: Option<(&'static [usize], &'static [f64])>,
}

const SHARED: [Mode; 3] = [Mode::Strict, Mode::Leased, Mode::Eventual];
pub(super) const EVERY_MODE: [Mode; 4] = [Mode::Strict, Mode::Leased, Mode::Eventual, Mode::Local];
const NO_TARGETS: Targets = Targets {
    utilisation_min: None,
    calls_per_admitted_max: None,
    calls_per_denied_max: None,
};

/// A series on four replicas that share a Redis.
const fn series(case: Case, limit: &'static str, loads: &'static [f64]) -> CaseSeries {
    let cell = Cell {
        case,
        mode: Mode::Strict,
        replicas: 0,
        topology: Topology::Single,
        limit,
        load: 0.0,
        length_ms: match case {
            Case::Cold => 1_000,
            Case::Targets => 4_000,
            _ => 3_000,
        },
        targets: NO_TARGETS,
    };
    CaseSeries {
        cell,
        modes: &SHARED,
        replicas: &[4],
        loads,
        quick: None,
    }
}

impl CaseSeries {
    const fn in_cluster(mut self) -> Self {
        self.cell.topology = Topology::Cluster;
        self
    }

    const fn with_targets(mut self, replicas: &'static [usize], targets: Targets) -> Self {
        self.replicas = replicas;
        self.cell.targets = targets;
        self
    }
}

/// A limit of which eight replicas should use at least this share.
const fn used(limit: &'static str, least: f64) -> CaseSeries {
    let targets = Targets {
        utilisation_min: Some(least),
        ..NO_TARGETS
    };
    series(Case::Targets, limit, &[2.0]).with_targets(&[8], targets)
}

const SERIES: [CaseSeries; 21] = [
    CaseSeries {
        modes: &EVERY_MODE,
        replicas: &[1, 2, 4, 8, 16],
        quick: Some((&[2, 8], &[2.0, 10.0])),
        ..series(Case::Grid, "1000-per-s", &[0.5, 1.0, 2.0, 10.0])
    },
    used("1000-per-s", 0.97),
    used("100-per-s", 0.97),
    used("10-per-s", 0.9),
    series(Case::Targets, "20000-per-s", &[0.5]).with_targets(
        &[4],
        Targets {
            calls_per_admitted_max: Some(0.05),
            ..NO_TARGETS
        },
    ),
    series(Case::Targets, "1000-per-s", &[10.0]).with_targets(
        &[4],
        Targets {
            calls_per_denied_max: Some(0.02),
            ..NO_TARGETS
        },
    ),
    CaseSeries {
        modes: &EVERY_MODE,
        replicas: &[2, 4, 8, 16],
        quick: Some((&[2, 8], &[3.0])),
        ..series(Case::Cold, "1000-once", &[10.0])
    },
    series(Case::Rotating, "1000-per-s", &[2.0]),
    series(Case::Edge, "fixed-500", &[1.2]),
    series(Case::Edge, "sliding-500", &[1.2]),
    series(Case::Skew, "1000-per-s", &[2.0]),
    series(Case::Skew, "fixed-500", &[2.0]),
    series(Case::Killed, "1000-per-s", &[2.0]),
    series(Case::Flush, "1000-per-s", &[2.0]),
    series(Case::Restart, "1000-per-s", &[2.0]),
    series(Case::Zipf, "20-per-s", &[200.0]),
    series(Case::Costs, "weighed", &[0.5]),
    series(Case::Grid, "1000-per-s", &[2.0]).in_cluster(),
    series(Case::Cold, "1000-once", &[3.0]).in_cluster(),
    series(Case::Flush, "1000-per-s", &[2.0]).in_cluster(),
    series(Case::Zipf, "20-per-s", &[200.0]).in_cluster(),
];

/// The length of the cells of a quick run, and of cells with targets.
const QUICK_MS: u64 = 1_000;
const QUICK_TARGET_MS: u64 = 1_500;
/// A quick cell lasts one second, so it needs a higher load to use up the limit.
const QUICK_LOADS: &[f64] = &[4.0];

/// All selected cells. Cells with the same replicas are adjacent.
pub(super) fn cells(chosen: &Arguments) -> Vec<Cell> {
    let mut cells: Vec<Cell> = SERIES
        .iter()
        .flat_map(|series| series.cells(chosen))
        .filter(|cell| is_chosen(&chosen.case, &cell.case) && is_chosen(&chosen.mode, &cell.mode))
        .collect();
    cells.sort_by_key(|cell| {
        (
            cell.topology,
            cell.case.is_destructive(),
            cell.mode,
            cell.replicas,
        )
    });
    cells
}

/// Without a choice, everything is chosen.
fn is_chosen<T: PartialEq>(chosen: &[T], one: &T) -> bool {
    chosen.is_empty() || chosen.contains(one)
}

impl CaseSeries {
    fn cells(&self, chosen: &Arguments) -> Vec<Cell> {
        let is_rate = self.cell.case.is_rate();
        let (mut replicas, mut loads) = (self.replicas, self.loads);
        let mut cell = self.cell;
        if chosen.quick {
            let usual = (replicas, if is_rate { QUICK_LOADS } else { loads });
            (replicas, loads) = self.quick.unwrap_or(usual);
            let is_target = cell.case == Case::Targets;
            cell.length_ms = if is_target { QUICK_TARGET_MS } else { QUICK_MS };
        }
        if !chosen.replicas.is_empty() {
            replicas = &chosen.replicas;
        }
        if !chosen.load.is_empty() && is_rate {
            loads = &chosen.load;
        }

        let mut cells = Vec::new();
        for mode in self.modes {
            for replicas in replicas {
                cells.extend(loads.iter().map(|load| Cell {
                    mode: *mode,
                    replicas: *replicas,
                    load: *load,
                    ..cell
                }));
            }
        }
        cells
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn chosen(options: &str) -> Vec<Cell> {
        let words = ["strictness"].into_iter().chain(options.split_whitespace());
        cells(&CommandLine::parse_from(words).arguments)
    }

    /// A cell with a load that uses up its limit.
    pub(in super::super) fn cell(
        case: Case,
        mode: Mode,
        replicas: usize,
        limit: &'static str,
    ) -> Cell {
        Cell {
            case,
            mode,
            replicas,
            topology: Topology::Single,
            limit,
            load: 3.0,
            length_ms: 1_000,
            targets: Targets::default(),
        }
    }

    #[test]
    fn what_is_named_is_chosen() {
        let grid = chosen("")
            .into_iter()
            .filter(|cell| cell.case == Case::Grid && cell.topology == Topology::Single);
        assert_eq!(grid.count(), 4 * 5 * 4);
        let chosen = chosen("--case grid --case cold --mode leased --replicas 3 --load 7");
        let is_asked = |cell: &Cell| cell.mode == Mode::Leased && cell.replicas == 3;
        assert!(chosen.iter().all(is_asked), "{chosen:?}");
        // On one server and in a cluster.
        let loads: Vec<f64> = chosen.iter().map(|cell| cell.load).collect();
        assert_eq!(loads, [7.0, 10.0, 7.0, 3.0]);
    }

    #[test]
    fn a_quick_run_has_every_case_of_every_mode() {
        let names = |options| {
            let cells = chosen(options).into_iter();
            let mut names: Vec<_> = cells.map(|cell| (cell.name(), cell.mode)).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        assert_eq!(names("--quick"), names(""));
        let quick = chosen("--quick");
        assert!(quick.iter().all(|cell| cell.length_ms <= QUICK_TARGET_MS));
    }

    #[test]
    fn bounds_follow_the_formulas() {
        let bound = |mode, case, replicas, limit| cell(case, mode, replicas, limit).bound();
        let thousand = "1000-per-s";
        assert_eq!(bound(Mode::Strict, Case::Grid, 4, thousand), Some(0));
        assert_eq!(bound(Mode::Leased, Case::Restart, 4, thousand), Some(1_000));
        assert_eq!(bound(Mode::Eventual, Case::Grid, 4, thousand), Some(100));
        assert_eq!(bound(Mode::Eventual, Case::Grid, 16, thousand), Some(96));
        assert_eq!(bound(Mode::Eventual, Case::Targets, 8, "10-per-s"), Some(8));
        assert_eq!(
            bound(Mode::Eventual, Case::Restart, 4, thousand),
            Some(1_100)
        );
        assert_eq!(bound(Mode::Local, Case::Grid, 4, thousand), None);
    }
}
