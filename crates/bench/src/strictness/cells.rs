//! The cells of the experiment in the order in which they run, and the bound of each by formula.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

use super::{Arguments, limits};
use crate::harness::{Goal, counted, is_chosen, word};

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
    /// One key that is never denied: its limit is far above its load.
    Plenty,
    /// One key whose load is far above its limit.
    Denied,
    /// 20,000 keys, most of which stay far below their limit.
    Lukewarm,
    /// The store freezes for a few moments, without refill.
    Hiccups,
    /// A round trip to the store that takes most of the deadline.
    Slow,
}

/// How quickly the store responds, and how long the replicas wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// Replicas wait for so long that a busy machine makes the store slow but not unavailable.
    Patient,
    /// Replicas wait as long as they do by default.
    Default,
    /// The same, with a slow network.
    Slow,
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
    /// How often the store freezes.
    pub(super) holes: u64,
    pub(super) targets: &'static [Target<'static>],
}

/// A figure that is shown beside its goal. On a slow or busy machine the goal may be missed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Target<'a> {
    pub(super) figure: &'a str,
    /// Absent if the figure is only reported.
    pub(super) goal: Option<Goal>,
    /// Whether the goal is also one of strict limits. Others are those of leased limits alone.
    #[serde(default)]
    pub(super) is_for_strict: bool,
}

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

    pub(super) const fn link(self) -> Link {
        match self {
            Self::Hiccups => Link::Default,
            Self::Slow => Link::Slow,
            _ => Link::Patient,
        }
    }
}

impl Link {
    /// The store timeout.
    pub(super) const fn timeout(self) -> Duration {
        match self {
            Self::Patient => Duration::from_secs(1),
            Self::Default | Self::Slow => Duration::from_millis(10),
        }
    }

    /// What the network adds to a round trip.
    pub(super) const fn delay(self) -> Option<Duration> {
        match self {
            Self::Patient | Self::Default => None,
            Self::Slow => Some(Duration::from_millis(8)),
        }
    }
}

impl Target<'_> {
    pub(super) fn is_for(&self, mode: Mode) -> bool {
        mode == Mode::Leased || (self.is_for_strict && mode == Mode::Strict)
    }

    pub(super) fn is_missed(&self, value: f64) -> bool {
        self.goal.is_some_and(|goal| goal.is_missed(value))
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
        let holes = match self.holes {
            0 => String::new(),
            holes => format!(", {holes} holes"),
        };
        format!("{} {}{place}{holes}", word(&self.case), self.limit)
    }

    /// The replicas and the load in a few words.
    pub(super) fn load_text(&self) -> String {
        format!("{} at {}x", counted(self.replicas, "replica"), self.load)
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
    #[serde(default)]
    holes: u64,
    #[serde(borrow, default)]
    targets: Vec<Target<'a>>,
}

/// Numbers of replicas, and loads in multiples of the limit.
#[derive(Deserialize)]
struct SeriesSize {
    replicas: Vec<usize>,
    loads: Vec<f64>,
}

/// All series. Where replicas and loads differ in a quick run, the file has both.
static SERIES: LazyLock<Vec<CaseSeries<'static>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("series.json")).expect("the file is valid"));

/// All selected cells. Cells with the same replicas are adjacent.
pub(super) fn cells(chosen: &Arguments) -> Vec<Cell> {
    let mut cells: Vec<Cell> = SERIES
        .iter()
        .flat_map(|series| series.cells(chosen))
        .filter(|cell| is_chosen(&chosen.case, &cell.case) && is_chosen(&chosen.mode, &cell.mode))
        .collect();
    cells.sort_by_key(|cell| {
        let (is_destructive, link) = (cell.case.is_destructive(), cell.case.link());
        (
            cell.topology,
            is_destructive,
            link,
            cell.mode,
            cell.replicas,
        )
    });
    cells
}

/// The length of a cell.
const fn length_ms(case: Case, is_quick: bool) -> u64 {
    match (case, is_quick) {
        (Case::Lukewarm, false) => 60_000,
        (Case::Lukewarm, true) | (Case::Denied, false) => 10_000,
        (Case::Plenty, false) => 8_000,
        (Case::Hiccups, _) | (Case::Targets | Case::Slow, false) => 4_000,
        (Case::Targets, true) => 1_500,
        (Case::Cold, _) | (_, true) => 1_000,
        (_, false) => 3_000,
    }
}

impl CaseSeries<'static> {
    fn cells(&'static self, chosen: &Arguments) -> Vec<Cell> {
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
                    holes: self.holes,
                    targets: &self.targets,
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
