//! Runs the cells one after the other, and reuses the store and the replicas where cells can share
//! them.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use tollgate_load::{LoadPlan, Replica, RequestKind, ValueTemplate};

use super::cells::{Case, Cell, Link, Mode};
use super::figures::{self, ADMITTED, ADMITTED_TO_STRICT, CellTrace, IDLE_CALLS};
use super::fleet::{self, Fleet};
use super::retry::{self, pause};
use super::schedule::{self, HOT_KEY, KILLED, LEAD_US};
use super::store::Store;
use super::{ideal, report};
use crate::harness::{Bench, Entrant, Figures, Runtime, float, timing};

/// The most connections to all replicas together, and to one replica.
const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_PER_REPLICA_MAX: usize = 32;
/// How often scripts are flushed.
const FLUSH_EVERY_US: u64 = 300_000;
/// How long the store freezes.
const HOLE_US: u64 = 30_000;
/// For how long the calls of idle replicas are counted.
const IDLE: Duration = Duration::from_secs(1);
/// The wall clock and the monotonic clock are read one after the other.
const CLOCK_ERROR_US: u64 = 1_000;

/// What a cell runs on. The next cell uses it as well if it can.
struct Testbed {
    cell: Cell,
    // Stopped before their store.
    fleet: Fleet,
    store: Store,
    /// Script calls per second without load.
    idle_calls: f64,
}

/// Measures all cells, each in one round, and returns the number of those that failed.
pub(super) fn measure(cells: &[Cell], tollgate: &Path, bench: &mut Bench) -> usize {
    bench.warm_up = None;
    let (mut testbed, mut failed) = (None, 0);
    for (number, cell) in cells.iter().enumerate() {
        bench.progress.step(&cell.to_string());
        match measure_cell(testbed.take(), cell, number, tollgate, bench) {
            Ok(used) => testbed = used,
            Err(error) => {
                failed += 1;
                bench.remark(format!("{cell}: FAILED: {error:#}"));
            }
        }
    }
    failed
}

/// Adds the row of a cell and remarks on what is wrong in it, or on why it cannot run here. Returns
/// what the next cell may use.
fn measure_cell(
    used: Option<Testbed>,
    cell: &Cell,
    number: usize,
    tollgate: &Path,
    bench: &mut Bench,
) -> Result<Option<Testbed>> {
    let skip = |bench: &mut Bench, reason: &str| {
        bench.remark(format!("{cell}: skipped: {reason}"));
        Ok(None)
    };
    let faketime = (cell.case == Case::Skew).then(fleet::find_faketime);
    let faketime = match faketime.transpose() {
        Ok(faketime) => faketime,
        Err(reason) => return skip(bench, &reason),
    };
    let mut testbed = match used.filter(|testbed| testbed.is_for(cell)) {
        Some(testbed) => testbed,
        None => Testbed::start(tollgate, cell, faketime.as_deref())?,
    };
    if faketime.is_some() && !testbed.fleet.has_wrong_clocks() {
        return skip(bench, "libfaketime has no effect on the server");
    }

    let pids = testbed.fleet.pids().chain(testbed.store.pids());
    let pids: Vec<u32> = pids.collect();
    let (case, load) = (cell.name(), cell.load_text());
    let strict = bench.report.row(&case, &load, &Mode::Strict.name());
    let strict = strict.map(|row| row.median(ADMITTED));
    let round = |_| {
        let mut figures = run(cell, number, &mut testbed)?;
        figures.extend(strict.map(|strict| (ADMITTED_TO_STRICT, figures[ADMITTED] / strict)));
        Ok(figures)
    };
    let entrant = Entrant::new(cell.mode.name(), load, round);
    let rows = bench.measure(&case, &pids, vec![entrant])?;

    let texts = rows
        .iter()
        .map(|row| (report::summary(row), report::remarks(cell, row)));
    for (summary, remarks) in texts.collect::<Vec<_>>() {
        bench.progress.note(&summary);
        remarks.into_iter().for_each(|remark| bench.remark(remark));
    }
    Ok(Some(testbed))
}

impl Testbed {
    /// Starts the store and the replicas that a cell needs.
    fn start(tollgate: &Path, cell: &Cell, faketime: Option<&Path>) -> Result<Self> {
        let store = Store::start(cell.topology, cell.case.link());
        let fleet = Fleet::start(tollgate, cell, &store, faketime)?;
        let calls_before = store.script_calls();
        pause(IDLE);
        let calls = store.script_calls() - calls_before;
        Ok(Self {
            cell: *cell,
            fleet,
            idle_calls: float(calls) / IDLE.as_secs_f64(),
            store,
        })
    }

    fn is_for(&self, cell: &Cell) -> bool {
        let needs = |cell: &Cell| (cell.mode, cell.replicas, cell.topology, cell.case.link());
        let is_intact = !self.cell.case.is_destructive() && !cell.case.is_destructive();
        is_intact && needs(&self.cell) == needs(cell)
    }
}

/// Runs one cell once: the load, the interference during it, and the retries after it.
fn run(cell: &Cell, number: usize, testbed: &mut Testbed) -> Result<Figures> {
    let Testbed {
        fleet,
        store,
        idle_calls,
        ..
    } = testbed;
    let store = &*store;
    let user = format!("cell-{number}-");
    let plan = plan(cell, &user, fleet)?;
    let runtime = Runtime::CurrentThread.build()?;

    let (started, start) = channel();
    let (mut epoch_us, mut calls_before) = (0, 0);
    let clock_before = clock_offset_us();
    let load = tollgate_load::run_traced(plan, |epoch| {
        calls_before = store.script_calls();
        epoch_us = micros(epoch);
        // Fails only if there is no interference left to start.
        let _ended = started.send(());
        schedule::requests(cell, epoch_us)
    });
    let requests = thread::scope(|scope| {
        let fleet = &mut *fleet;
        scope.spawn(move || start.recv().map(|()| interfere(cell, store, fleet)));
        runtime.block_on(load)
    })?;

    let trace = CellTrace {
        requests,
        epoch_us,
        clock_error_us: CLOCK_ERROR_US + clock_before.abs_diff(clock_offset_us()),
        script_calls: store.script_calls().saturating_sub(calls_before),
    };
    fleet.wait_until_ready()?;
    let mut figures = figures::figures(cell, &trace);
    figures.insert(IDLE_CALLS, *idle_calls);
    figures.extend(ideal::replay(cell.limit, &trace.requests, epoch_us)?);
    if cell.case.link() == Link::Patient {
        let user = format!("{user}key-{HOT_KEY}");
        figures.extend(retry::try_retry_times(fleet.addresses(), cell, &user)?);
    }
    Ok(figures)
}

/// Checks of the cell's limit, with keys of its own.
fn plan(cell: &Cell, user: &str, fleet: &Fleet) -> Result<LoadPlan> {
    let request = RequestKind::Check {
        attributes: vec![(
            "user".parse()?,
            ValueTemplate::parse(&format!("{user}{{key}}"))?,
        )],
        limits: vec![cell.limit.to_owned()],
    };
    let per_replica = (CONNECTIONS_MAX / cell.replicas).clamp(1, CONNECTIONS_PER_REPLICA_MAX);
    Ok(LoadPlan {
        connections: per_replica * cell.replicas,
        ..LoadPlan::new(fleet.addresses().map(Replica::from).collect(), request)
    })
}

/// Interferes with the replicas or the store during the load.
fn interfere(cell: &Cell, store: &Store, fleet: &mut Fleet) {
    let middle = Duration::from_micros(LEAD_US + schedule::middle_us(cell));
    match cell.case {
        Case::Killed => {
            pause(middle);
            fleet.kill(KILLED);
        }
        Case::Restart => {
            pause(middle);
            store.restart();
        }
        Case::Flush => {
            for _ in 0..cell.length_ms * 1_000 / FLUSH_EVERY_US {
                pause(Duration::from_micros(FLUSH_EVERY_US));
                store.flush_scripts();
            }
        }
        Case::Hiccups => {
            for _ in 0..cell.holes {
                pause(Duration::from_micros(
                    schedule::hole_every_us(cell) - HOLE_US,
                ));
                store.freeze(Duration::from_micros(HOLE_US));
            }
        }
        _ => {}
    }
}

/// By how much the wall clock, which is also that of the store, is ahead of a clock that is never
/// set. It changes if the wall clock is set or adjusted.
fn clock_offset_us() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since_origin = ORIGIN.get_or_init(timing::now).elapsed();
    let wall = timing::wall_clock().duration_since(SystemTime::UNIX_EPOCH);
    micros(wall.unwrap_or_default().saturating_sub(since_origin))
}

pub(super) fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::cells::tests;
    use super::super::figures::{IS_EXCEEDED, OFFERED, OVER};
    use super::*;
    use crate::harness::OutputArguments;

    /// The server binary, if it was built together with the tests, as `cargo xtask test` does.
    fn tollgate() -> Option<PathBuf> {
        let tests = std::env::current_exe().ok()?;
        let program = tests.parent()?.with_file_name("tollgate");
        program.is_file().then_some(program)
    }

    #[test]
    fn two_replicas_admit_a_limit_once_if_they_share_it_and_twice_if_not() {
        let Some(tollgate) = tollgate() else {
            eprintln!("skipped: the server was not built with these tests");
            return;
        };
        let tiny = |mode| Cell {
            load: 1.2,
            ..tests::cell(Case::Cold, mode, 2, "1000-once")
        };
        let cells = [tiny(Mode::Strict), tiny(Mode::Local)];
        let mut bench = Bench::new(&OutputArguments::default(), 2, [(1, 0); 2]);
        assert_eq!(measure(&cells, &tollgate, &mut bench), 0);
        let [strict, local] = &bench.report.rows[..] else {
            panic!("not two rows: {:?}", bench.report)
        };
        for (row, is_over) in [(strict, false), (local, true)] {
            assert_eq!(row.count(OFFERED), "1,200");
            assert!(row.median(ADMITTED) > 0.0, "{row:?}");
            assert_eq!(row.median(OVER) > 0.0, is_over, "{row:?}");
            assert_eq!(row.number(IS_EXCEEDED, 0), "0", "{row:?}");
        }
    }
}
