//! Runs the cells one after the other, and reuses the store and the replicas where cells can share
//! them.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{self, Runtime};

use super::client::CheckRequest;
use super::fleet::{Fleet, FleetOptions};
use super::plan::{Case, Cell};
use super::report::Report;
use super::retry::{self, RetryResult};
use super::row::{CellMeasurement, Row};
use super::schedule;
use super::store::Store;
use super::windows::ClockOffset;
use super::{faketime, ideal, load, table};
use crate::machine::Machine;
use crate::others::Usage;
use crate::progress::Progress;
use crate::timing;

/// How long connections rest before the load begins, so that all of them are being served.
const BREATH: Duration = Duration::from_millis(20);
/// How often scripts are flushed.
const FLUSH_EVERY_US: u64 = 300_000;

/// Everything that outlives a cell.
struct Testbed<'a> {
    tollgate: &'a Path,
    runtime: Runtime,
    store: Option<Store>,
    fleet: Option<Fleet>,
    faketime: Result<PathBuf, String>,
}

/// Measures all cells.
pub(super) fn measure(
    cells: &[Cell],
    tollgate: &Path,
    progress: &mut Progress,
) -> io::Result<Report> {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut bench = Testbed {
        tollgate,
        runtime,
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
        let name = format!(
            "{}, {}, {} replicas",
            cell.name(),
            cell.mode.word(),
            cell.replicas
        );
        progress.now(&name);
        match bench.measure(cell, number) {
            Ok(CellOutcome::Row(row, others)) => {
                progress.step(&table::line(&row));
                report.rows.push(*row);
                report.others = report.others.max(others);
            }
            Ok(CellOutcome::Skipped(reason)) => {
                report.skipped.push(format!("{name}: skipped: {reason}"));
                report
                    .skipped
                    .last()
                    .iter()
                    .for_each(|skipped| progress.step(skipped));
            }
            Err(error) => {
                // The next cell starts new replicas; the failure is listed below the table.
                bench.fleet = None;
                report.broken.push(format!("{name}: FAILED: {error}"));
                report
                    .broken
                    .last()
                    .iter()
                    .for_each(|broken| progress.step(broken));
            }
        }
    }
    Ok(report)
}

/// The outcome of a cell.
enum CellOutcome {
    /// Its figures, and the share of the machine that other programs used.
    Row(Box<Row>, f64),
    /// Why it could not run on this machine.
    Skipped(String),
}

impl Testbed<'_> {
    fn measure(&mut self, cell: &Cell, number: usize) -> io::Result<CellOutcome> {
        let pids = self.prepare(cell)?;
        if let (Case::Skew, Err(reason)) = (cell.case, &self.faketime) {
            return Ok(CellOutcome::Skipped(reason.clone()));
        }
        let before = Usage::read(&pids);
        let row = self.run(cell, number)?;
        // A process that was killed has no CPU times any more; the share then counts as zero.
        let others = Usage::read(&pids)
            .zip(before)
            .map_or(0.0, |(after, before)| after.others_since(before));
        Ok(CellOutcome::Row(Box::new(row), others))
    }

    /// Starts the store and the replicas that a cell needs, unless they are running, and returns
    /// their process ids.
    fn prepare(&mut self, cell: &Cell) -> io::Result<Vec<u32>> {
        let is_same = |fleet: &Fleet| fleet.mode == cell.mode && fleet.size() == cell.replicas;
        if self
            .store
            .as_ref()
            .is_none_or(|store| store.topology() != cell.topology)
        {
            // Replicas are stopped before their store.
            (self.fleet, self.store) = (None, None);
        }
        let store = self
            .store
            .get_or_insert_with(|| Store::start(cell.topology));
        if cell.case.is_destructive() || !self.fleet.as_ref().is_some_and(is_same) {
            self.fleet = None;
            let faketime = self
                .faketime
                .as_deref()
                .ok()
                .filter(|_| cell.case == Case::Skew);
            let start = FleetOptions {
                tollgate: self.tollgate,
                mode: cell.mode,
                replicas: cell.replicas,
                faketime,
            };
            let fleet = Fleet::start(start, store)?;
            if faketime.is_some() && !faketime::has_effect(&fleet.dates()) {
                self.faketime = Err("libfaketime has no effect on the server".to_owned());
            }
            self.fleet = Some(fleet);
        }
        Ok(self
            .fleet
            .iter()
            .flat_map(Fleet::pids)
            .chain(store.pids())
            .collect())
    }

    /// Runs one cell: the load, the interference during it, and the retries after it.
    fn run(&mut self, cell: &Cell, number: usize) -> io::Result<Row> {
        let (Some(store), Some(fleet)) = (&self.store, &mut self.fleet) else {
            return Err(io::Error::other(
                "a cell runs on a store and replicas that were prepared for it",
            ));
        };
        let check_request = CheckRequest {
            limit: cell.limit.name,
            cell: format!("cell-{number}"),
        };
        let ready = load::connect(&self.runtime, &fleet.addresses())?;
        let origin = timing::now();
        let offset = clock(store, origin)?;
        let lead_us = u64::try_from((origin.elapsed() + BREATH).as_micros()).unwrap_or(u64::MAX);
        let start = origin + Duration::from_micros(lead_us);
        let store_us = offset.since(lead_us).store_us(0);
        let requests = schedule::requests(cell, store_us);

        let calls_before = store.script_calls();
        let records = thread::scope(|scope| {
            scope.spawn(|| interfere(cell, store, fleet, start));
            ready.fire(&check_request, &requests, start)
        });
        let script_calls = store.script_calls().saturating_sub(calls_before);
        let offset = offset.and(clock(store, origin)?).since(lead_us);
        let retry_after = self.retry_after(cell, &check_request)?;
        if cell.case.is_destructive() {
            self.fleet = None;
        }
        let ideal = ideal::replay(&cell.limit, &records, store_us)?;
        Ok(Row::new(
            cell,
            &CellMeasurement {
                records: &records,
                ideal,
                offset,
                script_calls,
                retry_after,
            },
        ))
    }

    /// Tries the retry times of all remaining replicas.
    fn retry_after(
        &mut self,
        cell: &Cell,
        check_request: &CheckRequest,
    ) -> io::Result<RetryResult> {
        let Some(fleet) = &mut self.fleet else {
            return Ok(RetryResult::default());
        };
        if cell.case == Case::Killed {
            fleet.forget(schedule::KILLED);
        }
        fleet.wait_until_ready()?;
        retry::try_retry_times(
            &self.runtime,
            &fleet.addresses(),
            check_request,
            &cell.limit,
        )
    }
}

/// Interferes with the replicas or the store during the load.
fn interfere(cell: &Cell, store: &Store, fleet: &mut Fleet, start: Instant) {
    let at = |us| load::pause_until(start + Duration::from_micros(us));
    match cell.case {
        Case::Killed => {
            at(schedule::middle_us(cell));
            fleet.kill(schedule::KILLED);
        }
        Case::Restart => {
            at(schedule::middle_us(cell));
            store.restart();
        }
        Case::Flush => {
            let times = cell.length_ms * 1_000 / FLUSH_EVERY_US;
            for time in 1..=times {
                at(time * FLUSH_EVERY_US);
                store.flush_scripts();
            }
        }
        _ => {}
    }
}

fn clock(store: &Store, origin: Instant) -> io::Result<ClockOffset> {
    store
        .offset(origin)
        .ok_or_else(|| io::Error::other("the store did not report its time"))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Mode;
    use super::super::row::tests::cell;
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
            ..cell(mode, 2)
        };
        let cells = [tiny(Mode::Strict), tiny(Mode::Local)];
        let report = measure(&cells, &tollgate, &mut Progress::new(2)).unwrap();
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
