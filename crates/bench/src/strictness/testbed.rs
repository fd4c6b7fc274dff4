//! Runs the cells one after the other, and reuses the store and the replicas where cells can share
//! them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use tollgate_load::{LoadPlan, Replica, RequestKind, ValueTemplate};

use super::cells::{Case, Cell};
use super::figures::{self, CellTrace};
use super::fleet::{self, Fleet};
use super::retry::{self, pause};
use super::schedule::{self, HOT_KEY, KILLED, LEAD_US};
use super::store::Store;
use super::{ideal, report};
use crate::harness::{Bench, Entrant, Figures, Runtime, counted, timing};

/// The most connections to all replicas together, and to one replica.
const CONNECTIONS_MAX: usize = 128;
const CONNECTIONS_PER_REPLICA_MAX: usize = 32;
/// How often scripts are flushed.
const FLUSH_EVERY_US: u64 = 300_000;
/// The wall clock and the monotonic clock are read one after the other.
const CLOCK_ERROR_US: u64 = 1_000;

/// Everything that outlives a cell.
struct Testbed<'a> {
    tollgate: &'a Path,
    store: Option<Store>,
    fleet: Option<Fleet>,
    faketime: Result<PathBuf, String>,
}

/// Measures all cells, each in one round, and returns the number of those that failed.
pub(super) fn measure(cells: &[Cell], tollgate: &Path, bench: &mut Bench) -> usize {
    let mut testbed = Testbed {
        tollgate,
        store: None,
        fleet: None,
        faketime: fleet::find_faketime(),
    };
    bench.warm_up = None;

    let mut failed = 0;
    for (number, cell) in cells.iter().enumerate() {
        bench.progress.step(&cell.to_string());
        match testbed.measure(cell, number, bench) {
            Ok(remarks) => remarks.into_iter().for_each(|remark| bench.remark(remark)),
            Err(error) => {
                // The next cell starts new replicas.
                testbed.fleet = None;
                failed += 1;
                bench.remark(format!("{cell}: FAILED: {error:#}"));
            }
        }
    }
    bench.progress.clear();
    failed
}

impl Testbed<'_> {
    /// Adds the row of a cell and returns what is wrong in it, or why it cannot run here.
    fn measure(&mut self, cell: &Cell, number: usize, bench: &mut Bench) -> Result<Vec<String>> {
        self.prepare(cell)?;
        if let (Case::Skew, Err(reason)) = (cell.case, &self.faketime) {
            return Ok(vec![format!("{cell}: skipped: {reason}")]);
        }
        let (Some(store), Some(fleet)) = (&self.store, &mut self.fleet) else {
            bail!("the store and the replicas are not prepared");
        };

        let pids: Vec<u32> = fleet.pids().chain(store.pids()).collect();
        let load = format!("{} at {}x", counted(cell.replicas, "replica"), cell.load);
        let round = |_| run(cell, number, store, fleet);
        let entrant = Entrant::new(cell.mode.name(), load, round);
        let rows = bench.measure(&cell.name(), &pids, vec![entrant])?;

        let remarks = rows.iter().flat_map(|row| report::remarks(cell, row));
        let remarks = remarks.collect();
        let summary = rows.first().map(report::summary);
        bench.progress.note(&summary.unwrap_or_default());
        if cell.case.is_destructive() {
            self.fleet = None;
        }
        Ok(remarks)
    }

    /// Starts the store and the replicas that a cell needs, unless they are running.
    fn prepare(&mut self, cell: &Cell) -> Result<()> {
        let is_same = |store: &Store| store.is(cell.topology);
        if !self.store.as_ref().is_some_and(is_same) {
            // Replicas are stopped before their store.
            (self.fleet, self.store) = (None, None);
        }
        let store = self
            .store
            .get_or_insert_with(|| Store::start(cell.topology));

        let is_for_cell = |fleet: &Fleet| fleet.is_for(cell);
        if cell.case.is_destructive() || !self.fleet.as_ref().is_some_and(is_for_cell) {
            self.fleet = None;
            let faketime = self.faketime.as_deref().ok();
            let faketime = faketime.filter(|_| cell.case == Case::Skew);
            let fleet = Fleet::start(self.tollgate, cell, store, faketime)?;
            if faketime.is_some() && !fleet.has_wrong_clocks() {
                self.faketime = Err("libfaketime has no effect on the server".to_owned());
            }
            self.fleet = Some(fleet);
        }
        Ok(())
    }
}

/// Runs one cell once: the load, the interference during it, and the retries after it.
fn run(cell: &Cell, number: usize, store: &Store, fleet: &mut Fleet) -> Result<Figures> {
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
    figures.extend(ideal::replay(cell.limit, &trace.requests, epoch_us)?);
    let user = format!("{user}key-{HOT_KEY}");
    figures.extend(retry::try_retry_times(fleet.addresses(), cell, &user)?);
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

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::cells::{Mode, tests};
    use super::super::figures::{ADMITTED, IS_EXCEEDED, OFFERED, OVER};
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
