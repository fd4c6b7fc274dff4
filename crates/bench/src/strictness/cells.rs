//! The cells of the experiment in the order in which they run, and the bound of each by formula.

use std::fmt;

use clap::ValueEnum;
use serde::Deserialize;

use super::{Arguments, limits};
use crate::harness::{Goal, counted, is_chosen, word};

/// The figures that have targets: script calls per request, and the lower of the two utilisations,
/// from the start and from the time at which an ideal limiter would have been used up.
pub(super) const CALLS_PER_ADMITTED: &str = "calls_per_admitted";
pub(super) const CALLS_PER_DENIED: &str = "calls_per_denied";
pub(super) const UTILISATION_LOWEST: &str = "utilisation_lowest";

/// How the replicas count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Strict,
    Leased,
    Eventual,
    /// Every replica counts separately: wrong on purpose, to show what the other modes prevent.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Topology {
    /// One Redis.
    Single,
    /// A cluster of three.
    Cluster,
}

/// One run of the experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    pub(super) topology: Topology,
    pub(super) limit: &'static str,
    /// The offered load, in multiples of what the limit allows.
    pub(super) load: f64,
    pub(super) length_ms: u64,
    /// A figure with a goal other than strictness, for leased limits. On a slow or busy machine it
    /// may be missed.
    pub(super) target: Option<Target<'static>>,
}

/// A figure and what it should be.
type Target<'a> = (&'a str, Goal);

impl Mode {
    /// The name in tables and in the picture.
    pub(super) fn name(self) -> String {
        match self {
            Self::Local => "local (wrong)".to_owned(),
            _ => word(&self),
        }
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
        format!("{} {}{place}", word(&self.case), self.limit)
    }
}

/// With its mode and load.
impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replicas = counted(self.replicas, "replica");
        let (mode, load) = (word(&self.mode), self.load);
        write!(out, "{}, {mode}, {replicas}, {load}x", self.name())
    }
}

/// The cells of one case: every mode with every number of replicas and load.
#[derive(Deserialize)]
struct CaseSeries<'a> {
    case: Case,
    limit: &'a str,
    topology: Topology,
    modes: Vec<Mode>,
    #[serde(flatten)]
    full: SeriesSize,
    /// The size of a quick run, if it is not the usual one. A quick cell lasts one second, so it needs
    /// a higher load to use up the limit.
    quick: Option<SeriesSize>,
    #[serde(borrow)]
    target: Option<Target<'a>>,
}

/// Numbers of replicas, and loads in multiples of the limit.
#[derive(Deserialize)]
struct SeriesSize {
    replicas: Vec<usize>,
    loads: Vec<f64>,
}

/// All series. Where replicas and loads differ in a quick run, the file has both.
const SERIES: &str = include_str!("series.json");

/// All selected cells. Cells with the same replicas are adjacent.
pub(super) fn cells(chosen: &Arguments) -> Vec<Cell> {
    let series: Vec<CaseSeries<'_>> = serde_json::from_str(SERIES).expect("the file is valid");
    let mut cells: Vec<Cell> = series
        .iter()
        .flat_map(|series| series.cells(chosen))
        .filter(|cell| is_chosen(&chosen.case, &cell.case) && is_chosen(&chosen.mode, &cell.mode))
        .collect();
    cells.sort_by_key(|cell| {
        let is_destructive = cell.case.is_destructive();
        (cell.topology, is_destructive, cell.mode, cell.replicas)
    });
    cells
}

/// The length of a cell.
const fn length_ms(case: Case, is_quick: bool) -> u64 {
    match (case, is_quick) {
        (Case::Targets, true) => 1_500,
        (Case::Cold, _) | (_, true) => 1_000,
        (Case::Targets, false) => 4_000,
        (_, false) => 3_000,
    }
}

impl CaseSeries<'static> {
    fn cells(&self, chosen: &Arguments) -> Vec<Cell> {
        let quick = self.quick.as_ref().filter(|_| chosen.output.quick);
        let SeriesSize { replicas, loads } = quick.unwrap_or(&self.full);
        let replicas = instead(&chosen.replicas, replicas);
        let loads = if self.case.is_rate() {
            instead(&chosen.load, loads)
        } else {
            loads
        };

        let mut cells = Vec::new();
        for mode in &self.modes {
            for replicas in replicas {
                cells.extend(loads.iter().map(|load| Cell {
                    case: self.case,
                    mode: *mode,
                    replicas: *replicas,
                    topology: self.topology,
                    limit: self.limit,
                    load: *load,
                    length_ms: length_ms(self.case, chosen.output.quick),
                    target: self.target,
                }));
            }
        }
        cells
    }
}

/// What was chosen, or else the default.
fn instead<'a, T>(chosen: &'a [T], default: &'a [T]) -> &'a [T] {
    if chosen.is_empty() { default } else { chosen }
}

#[cfg(test)]
pub(super) mod tests;
