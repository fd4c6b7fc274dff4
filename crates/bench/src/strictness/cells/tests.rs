use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: StrictnessArguments,
}

fn parsed(options: &str) -> Result<Vec<Cell>, clap::Error> {
    let words = ["strictness"].into_iter().chain(options.split_whitespace());
    Ok(cells(&CommandLine::try_parse_from(words)?.arguments))
}

fn chosen(options: &str) -> Vec<Cell> {
    parsed(options).unwrap()
}

/// A cell with a load that uses up its limit.
pub(in super::super) fn cell(case: Case, mode: Mode, replicas: usize, limit: &'static str) -> Cell {
    Cell {
        case,
        mode,
        replicas,
        is_cluster: false,
        limit,
        load: 3.0,
        length_ms: 1_000,
        holes: 0,
        targets: &[],
    }
}

#[test]
fn what_is_named_is_chosen() {
    let grid = chosen("")
        .into_iter()
        .filter(|cell| cell.case == Case::Grid && !cell.is_cluster);
    assert_eq!(grid.count(), 4 * 5 * 4);
    let chosen = chosen("--case grid --case cold --mode leased --replicas 3 --load 7");
    let is_asked = |cell: &Cell| cell.mode == Mode::Leased && cell.replicas == 3;
    assert!(chosen.iter().all(is_asked), "{chosen:?}");
    // On one server and in a cluster.
    let loads: Vec<f64> = chosen.iter().map(|cell| cell.load).collect();
    assert_eq!(loads, [7.0, 10.0, 7.0, 3.0]);
}

#[test]
fn numbers_are_checked() {
    for valid in ["--replicas 16", "--replicas 1,64", "--load 0.5,100"] {
        assert!(!chosen(valid).is_empty(), "{valid}");
    }
    for replicas in ["0", "65", "x"] {
        assert!(
            parsed(&format!("--replicas {replicas}")).is_err(),
            "{replicas}"
        );
    }
    for load in ["0", "NaN", "=-1", "101"] {
        assert!(parsed(&format!("--load {load}")).is_err(), "{load}");
    }
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
    assert!(quick.iter().all(|cell| cell.length_ms <= 10_000));
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
