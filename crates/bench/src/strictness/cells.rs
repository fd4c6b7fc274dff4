//! The cells of the experiment in the order in which they run, and the bound of each by formula.

use super::StrictnessArguments;
use crate::harness::prelude::*;
use clap::ValueEnum;
use serde::Deserialize;
use std::fmt;
use std::sync::LazyLock;
use tollgate::{Micros, Quota};
use tollgate_rules::Config;

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

/// How long the replicas wait for the store, and what the network adds to a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) timeout_ms: u64,
    pub(super) delay_ms: u64,
}

impl Link {
    /// Replicas wait for so long that a busy machine makes the store slow but not unavailable.
    pub(super) const PATIENT: Self = Self {
        timeout_ms: 1_000,
        delay_ms: 0,
    };
}

/// One run of the experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    pub(super) is_cluster: bool,
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
    /// Whether the load of a case is a multiple of the limit's rate. It has another meaning in cases
    /// without refill and in cases with many keys.
    const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::Grid | Self::Rotating | Self::Skew | Self::Killed | Self::Flush | Self::Restart
        )
    }

    /// Where the store hardly responds, replicas wait as long as they do by default.
    pub(super) const fn link(self) -> Link {
        let timeout_ms = 10;
        match self {
            Self::Hiccups => Link {
                timeout_ms,
                delay_ms: 0,
            },
            Self::Slow => Link {
                timeout_ms,
                delay_ms: 8,
            },
            _ => Link::PATIENT,
        }
    }
}

impl Target<'_> {
    /// Whether a mode that has the goal misses it.
    pub(super) fn is_missed(&self, mode: Mode, value: f64) -> bool {
        let is_for = mode == Mode::Leased || (self.is_for_strict && mode == Mode::Strict);
        is_for && self.goal.is_some_and(|goal| goal.is_missed(value))
    }

    pub(super) fn goal_text(&self) -> String {
        or_dash(self.goal.map(|goal| goal.text("")))
    }

    /// Decimal places of the figure: counts have none, shares have three.
    pub(super) fn digits(&self) -> usize {
        let goal = self.goal.map_or(f64::NAN, Goal::value);
        if goal == 0.0 || goal >= 10.0 { 0 } else { 3 }
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
        let (capacity, replicas) = (self.quota().limit(), self.replicas as u64);
        let unreported = match self.mode {
            Mode::Strict | Mode::Leased => 0,
            Mode::Eventual => replicas * (capacity / (10 * replicas)).max(1),
            Mode::Local => return None,
        };
        let is_forgotten = self.case == Case::Restart;
        Some(unreported + u64::from(is_forgotten) * capacity)
    }

    pub(super) fn quota(&self) -> Quota {
        quota(self.limit)
    }

    /// The case, the limit and the store in one line.
    pub(super) fn name(&self) -> String {
        let place = if self.is_cluster { ", cluster" } else { "" };
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
    #[serde(default)]
    is_cluster: bool,
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
#[derive(Clone, Deserialize)]
struct SeriesSize {
    replicas: Vec<usize>,
    loads: Vec<f64>,
}

/// All series. Where replicas and loads differ in a quick run, the file has both.
static SERIES: LazyLock<Vec<CaseSeries<'static>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("series.json")).expect("the file is valid"));

/// All selected cells.
pub(super) fn cells(chosen: &StrictnessArguments) -> Vec<Cell> {
    let cells = SERIES.iter().flat_map(|series| series.cells(chosen));
    let cells = cells.filter(|cell| chosen.bench.has(&cell.to_string()));
    cells.collect()
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
    fn cells(&'static self, chosen: &StrictnessArguments) -> Vec<Cell> {
        let is_quick = chosen.bench.quick;
        let quick = self.quick.as_ref().filter(|_| is_quick);
        let SeriesSize {
            mut replicas,
            mut loads,
        } = quick.unwrap_or(&self.full).clone();
        if !chosen.replicas.is_empty() {
            replicas.clone_from(&chosen.replicas);
        }
        if self.case.is_rate() && !chosen.load.is_empty() {
            loads.clone_from(&chosen.load);
        }

        let mut cells = Vec::new();
        let is_chosen = |mode: &Mode| chosen.mode.is_empty() || chosen.mode.contains(mode);
        for mode in self.modes.iter().copied().filter(is_chosen) {
            for replicas in replicas.iter().copied() {
                cells.extend(loads.iter().map(|load| Cell {
                    case: self.case,
                    mode,
                    replicas,
                    is_cluster: self.is_cluster,
                    limit: self.limit,
                    load: *load,
                    length_ms: length_ms(self.case, is_quick),
                    holes: self.holes,
                    targets: &self.targets,
                }));
            }
        }
        cells
    }
}

pub(super) const SECOND_US: u64 = 1_000_000;

/// `1000-once` and `1000-per-day` refill so slowly that nothing is refilled during a run, `weighed`
/// so fast that a request for the whole capacity is admitted now and then. Other windows last a
/// second, so that a run of a few seconds has a few window edges.
pub(super) const LIMITS: &str = include_str!("limits.yaml");

/// The quota of the limit with this name.
pub(super) fn quota(name: &str) -> Quota {
    let config = Config::read_from(LIMITS.as_bytes(), "limits", &|_| None);
    let limits = config.expect("the limits are valid").limits;
    let mut rules = limits.iter().map(|limit| &limit.rule);
    let rule = rules.find(|rule| rule.name().as_str() == name);
    *rule.expect("every cell names one of the limits").quota()
}

/// Whole units that become available in this time.
pub(super) fn refilled(quota: &Quota, time_us: u64) -> u64 {
    let (units, period_us) = match quota {
        Quota::TokenBucket(bucket) => bucket.refill(),
        other => (other.limit(), other.window().map_or(SECOND_US, Micros::get)),
    };
    units * time_us / period_us
}

#[cfg(test)]
pub(super) mod tests;
