//! The cells of the experiment, in the order in which they run.

use super::limits::{self, Limit};
use super::plan::{Case, Cell, Mode, Targets, Topology};

/// The cells that were selected on the command line.
#[derive(Clone, Debug, Default)]
pub(super) struct CellSelection {
    pub(super) quick: bool,
    pub(super) cases: Vec<Case>,
    pub(super) modes: Vec<Mode>,
    pub(super) replicas: Vec<usize>,
    pub(super) loads: Vec<f64>,
}

const SHARED: [Mode; 3] = [Mode::Strict, Mode::Leased, Mode::Eventual];
const EVERYONE: [Mode; 4] = [Mode::Strict, Mode::Leased, Mode::Eventual, Mode::Local];

/// The cells of one case, by default.
struct CaseSeries {
    case: Case,
    limit: Limit,
    modes: &'static [Mode],
    replicas: &'static [usize],
    loads: &'static [f64],
    /// Replicas and loads of a quick run.
    quick: (&'static [usize], &'static [f64]),
    length_ms: u64,
    topology: Topology,
    targets: Targets,
}

const fn series(case: Case, limit: Limit, load: &'static [f64]) -> CaseSeries {
    CaseSeries {
        case,
        limit,
        modes: &SHARED,
        replicas: &[4],
        loads: load,
        // A quick cell lasts one second, so it needs a higher load to use up the limit.
        quick: (&[4], if is_rate(case) { &[4.0] } else { load }),
        length_ms: 3_000,
        topology: Topology::Single,
        targets: NONE,
    }
}

/// Whether the load of a case is a multiple of the limit's rate. It has another meaning in cases
/// without refill and in cases with many keys.
const fn is_rate(case: Case) -> bool {
    matches!(
        case,
        Case::Grid | Case::Rotating | Case::Skew | Case::Killed | Case::Flush | Case::Restart
    )
}

const NONE: Targets = Targets {
    utilisation_min: None,
    calls_per_admitted_max: None,
    calls_per_denied_max: None,
};

const fn used(least: f64) -> Targets {
    Targets {
        utilisation_min: Some(least),
        ..NONE
    }
}

const TARGET: CaseSeries = CaseSeries {
    replicas: &[8],
    quick: (&[8], &[2.0]),
    length_ms: 4_000,
    ..series(Case::Targets, limits::PER_SECOND_1000, &[2.0])
};

const SERIES: [CaseSeries; 21] = [
    CaseSeries {
        modes: &EVERYONE,
        replicas: &[1, 2, 4, 8, 16],
        quick: (&[2, 8], &[2.0, 10.0]),
        ..series(Case::Grid, limits::PER_SECOND_1000, &[0.5, 1.0, 2.0, 10.0])
    },
    CaseSeries {
        targets: used(0.97),
        ..TARGET
    },
    CaseSeries {
        limit: limits::PER_SECOND_100,
        targets: used(0.97),
        ..TARGET
    },
    CaseSeries {
        limit: limits::PER_SECOND_10,
        targets: used(0.9),
        ..TARGET
    },
    CaseSeries {
        limit: limits::PER_SECOND_20000,
        replicas: &[4],
        loads: &[0.5],
        quick: (&[4], &[0.5]),
        targets: Targets {
            calls_per_admitted_max: Some(0.05),
            ..NONE
        },
        ..TARGET
    },
    CaseSeries {
        replicas: &[4],
        loads: &[10.0],
        quick: (&[4], &[10.0]),
        targets: Targets {
            calls_per_denied_max: Some(0.02),
            ..NONE
        },
        ..TARGET
    },
    CaseSeries {
        modes: &EVERYONE,
        replicas: &[2, 4, 8, 16],
        quick: (&[2, 8], &[3.0]),
        length_ms: 1_000,
        ..series(Case::Cold, limits::ONCE, &[10.0])
    },
    series(Case::Rotating, limits::PER_SECOND_1000, &[2.0]),
    series(Case::Edge, limits::FIXED, &[1.2]),
    series(Case::Edge, limits::SLIDING, &[1.2]),
    series(Case::Skew, limits::PER_SECOND_1000, &[2.0]),
    series(Case::Skew, limits::FIXED, &[2.0]),
    series(Case::Killed, limits::PER_SECOND_1000, &[2.0]),
    series(Case::Flush, limits::PER_SECOND_1000, &[2.0]),
    series(Case::Restart, limits::PER_SECOND_1000, &[2.0]),
    series(Case::Zipf, limits::PER_KEY, &[200.0]),
    series(Case::Costs, limits::WEIGHED, &[0.5]),
    CaseSeries {
        topology: Topology::Cluster,
        ..series(Case::Grid, limits::PER_SECOND_1000, &[2.0])
    },
    CaseSeries {
        topology: Topology::Cluster,
        length_ms: 1_000,
        ..series(Case::Cold, limits::ONCE, &[3.0])
    },
    CaseSeries {
        topology: Topology::Cluster,
        ..series(Case::Flush, limits::PER_SECOND_1000, &[2.0])
    },
    CaseSeries {
        topology: Topology::Cluster,
        ..series(Case::Zipf, limits::PER_KEY, &[200.0])
    },
];

/// The length of the cells of a quick run, and of cells with targets.
const QUICK_MS: u64 = 1_000;
const QUICK_TARGET_MS: u64 = 1_500;

/// All selected cells. Cells with the same replicas are adjacent.
pub(super) fn cells(choice: &CellSelection) -> Vec<Cell> {
    let mut cells: Vec<Cell> = SERIES
        .iter()
        .flat_map(|series| cells_of_series(series, choice))
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

fn cells_of_series(series: &CaseSeries, choice: &CellSelection) -> Vec<Cell> {
    let is_chosen = choice.cases.is_empty() || choice.cases.contains(&series.case);
    let modes = series
        .modes
        .iter()
        .filter(|mode| choice.modes.is_empty() || choice.modes.contains(mode));
    let modes: Vec<Mode> = modes.filter(|_| is_chosen).copied().collect();
    let (replicas, loads) = if choice.quick {
        series.quick
    } else {
        (series.replicas, series.loads)
    };
    let replicas = if choice.replicas.is_empty() {
        replicas
    } else {
        &choice.replicas
    };
    let loads = if choice.loads.is_empty() || !is_rate(series.case) {
        loads
    } else {
        &choice.loads
    };
    let mut cells = Vec::new();
    for mode in modes {
        for replicas in replicas {
            for load in loads {
                cells.push(Cell {
                    case: series.case,
                    mode,
                    replicas: *replicas,
                    topology: series.topology,
                    limit: series.limit,
                    load: *load,
                    length_ms: match (choice.quick, series.case) {
                        (false, _) => series.length_ms,
                        (true, Case::Targets) => QUICK_TARGET_MS,
                        (true, _) => QUICK_MS,
                    },
                    targets: series.targets,
                });
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_chosen() {
        let all = cells(&CellSelection::default());
        let grid = all
            .iter()
            .filter(|cell| cell.case == Case::Grid && cell.topology == Topology::Single);
        assert_eq!(grid.count(), 4 * 5 * 4);
        let choice = CellSelection {
            cases: vec![Case::Grid, Case::Cold],
            modes: vec![Mode::Leased],
            replicas: vec![3],
            loads: vec![7.0],
            ..CellSelection::default()
        };
        let chosen = cells(&choice);
        let is_asked = |cell: &Cell| cell.mode == Mode::Leased && cell.replicas == 3;
        assert!(chosen.iter().all(is_asked), "{chosen:?}");
        // On one server and in a cluster.
        let loads: Vec<f64> = chosen.iter().map(|cell| cell.load).collect();
        assert_eq!(loads, [7.0, 10.0, 7.0, 3.0]);
    }

    #[test]
    fn a_quick_run_has_every_case_of_every_mode() {
        let names = |quick| {
            let cells = cells(&CellSelection {
                quick,
                ..CellSelection::default()
            });
            let mut names: Vec<_> = cells.iter().map(|cell| (cell.name(), cell.mode)).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        assert_eq!(names(true), names(false));
        assert!(
            cells(&CellSelection {
                quick: true,
                ..CellSelection::default()
            })
            .iter()
            .all(|cell| cell.length_ms <= QUICK_TARGET_MS)
        );
    }
}
