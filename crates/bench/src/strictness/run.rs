//! Runs the cells one after the other, and reuses the store and the replicas where cells can share
//! them.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime;
use tollgate_load::{LoadPlan, Replica, RequestKind, ValueTemplate};

use super::cells::{Case, Cell};
use super::fleet::Fleet;
use super::retry::{self, pause};
use super::row::{CellMeasurement, Row};
use super::schedule::{self, HOT_KEY, KILLED, LEAD_US};
use super::store::Store;
use super::table::{self, Report};
use super::{faketime, ideal};
use crate::harness::machine::Machine;
use crate::harness::others::Usage;
use crate::harness::progress::Progress;
use crate::harness::timing;

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

/// Measures all cells.
pub(super) fn measure(cells: &[Cell], tollgate: &Path, progress: &mut Progress) -> Report {
    let mut testbed = Testbed {
        tollgate,
        store: None,
        fleet: None,
        faketime: faketime::library(),
    };
    let mut report = Report {
        machine: Machine::this(),
        others: 0.0,
        skipped: Vec::new(),
        broken: Vec::new(),
        rows: Vec::new(),
    };

    for (number, cell) in cells.iter().enumerate() {
        progress.now(&cell.to_string());
        let (list, line) = match testbed.measure(cell, number) {
            Ok(Ok((row, others))) => {
                progress.step(&table::line(&row));
                report.others = report.others.max(others);
                report.rows.push(row);
                continue;
            }
            Ok(Err(reason)) => (&mut report.skipped, format!("{cell}: skipped: {reason}")),
            Err(error) => {
                // The next cell starts new replicas; the failure is listed below the table.
                testbed.fleet = None;
                (&mut report.broken, format!("{cell}: FAILED: {error}"))
            }
        };
        progress.step(&line);
        list.push(line);
    }
    report
}

impl Testbed<'_> {
    /// The figures of a cell and the share of the machine that other programs used, or why the cell
    /// cannot run on this machine.
    fn measure(&mut self, cell: &Cell, number: usize) -> io::Result<Result<(Row, f64), String>> {
        self.prepare(cell)?;
        if let (Case::Skew, Err(reason)) = (cell.case, &self.faketime) {
            return Ok(Err(reason.clone()));
        }
        let (Some(store), Some(fleet)) = (&self.store, &mut self.fleet) else {
            return Err(io::Error::other(
                "the store and the replicas are not prepared",
            ));
        };

        let pids: Vec<u32> = fleet.pids().chain(store.pids()).collect();
        let before = Usage::read(&pids);
        let row = run(cell, number, store, fleet)?;
        // A process that was killed has no CPU times any more; the share then counts as zero.
        let others = Usage::read(&pids)
            .zip(before)
            .map_or(0.0, |(after, before)| after.others_since(before));

        if cell.case.is_destructive() {
            self.fleet = None;
        }
        Ok(Ok((row, others)))
    }

    /// Starts the store and the replicas that a cell needs, unless they are running.
    fn prepare(&mut self, cell: &Cell) -> io::Result<()> {
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
            if faketime.is_some() && !faketime::has_effect(&fleet.dates()) {
                self.faketime = Err("libfaketime has no effect on the server".to_owned());
            }
            self.fleet = Some(fleet);
        }
        Ok(())
    }
}

/// Runs one cell: the load, the interference during it, and the retries after it.
fn run(cell: &Cell, number: usize, store: &Store, fleet: &mut Fleet) -> io::Result<Row> {
    let user = format!("cell-{number}-");
    let plan = plan(cell, &user, fleet).map_err(io::Error::other)?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;

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
    let trace = thread::scope(|scope| {
        let fleet = &mut *fleet;
        scope.spawn(move || start.recv().map(|()| interfere(cell, store, fleet)));
        runtime.block_on(load).map_err(io::Error::other)
    })?;

    let script_calls = store.script_calls().saturating_sub(calls_before);
    let clock_error_us = CLOCK_ERROR_US + clock_before.abs_diff(clock_offset_us());
    fleet.wait_until_ready()?;
    let user = format!("{user}key-{HOT_KEY}");
    Ok(Row::new(
        cell,
        &CellMeasurement {
            ideal: ideal::replay(cell.limit, &trace, epoch_us)?,
            trace,
            epoch_us,
            clock_error_us,
            script_calls,
            retry_after: retry::try_retry_times(fleet.addresses(), cell, &user)?,
        },
    ))
}

/// Checks of the cell's limit, with keys of its own.
fn plan(cell: &Cell, user: &str, fleet: &Fleet) -> Result<LoadPlan, Box<dyn Error + Send + Sync>> {
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
    use super::*;

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
        let report = measure(&cells, &tollgate, &mut Progress::new(2));
        let [strict, local] = &report.rows[..] else {
            panic!("not two rows: {report:?}")
        };
        assert_eq!((strict.offered, local.offered), (1_200, 1_200));
        assert!(
            strict.admitted > 0 && strict.over() <= 0.0 && !strict.is_exceeded,
            "{strict:?}"
        );
        assert!(local.over() > 0.0 && !local.is_exceeded, "{local:?}");
    }
}
