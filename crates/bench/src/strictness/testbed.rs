//! Runs the cells one after the other, each on a store and replicas of its own.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Instant, SystemTime};

use tollgate_load::{LoadPlan, Replica, RequestKind, ValueTemplate};

use super::cells::{Case, Cell, Link, Mode};
use super::figures::{CellTrace, figures, replay};
use super::fleet::{Fleet, find_faketime, pause, try_retry_times};
use super::report;
use super::schedule::{self, KILLED, LEAD_US};
use super::store::Store;
use crate::harness::prelude::*;

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

/// Measures all cells, each in one round, and returns the number of those that failed.
pub(super) fn measure(cells: &[Cell], tollgate: &Path, bench: &mut Bench) -> usize {
    bench.is_warmed_up = false;
    let mut failed = 0;
    for (number, cell) in (1..).zip(cells) {
        eprintln!("[{number}/{}] {cell}", cells.len());
        if let Err(error) = measure_cell(cell, tollgate, bench) {
            failed += 1;
            bench.remark(format!("{cell}: FAILED: {error:#}"));
        }
    }
    failed
}

/// Adds the row of a cell and remarks on what is wrong in it, or on why it cannot run here.
fn measure_cell(cell: &Cell, tollgate: &Path, bench: &mut Bench) -> Result<()> {
    let skipped = |reason: &str| format!("{cell}: skipped: {reason}");
    let faketime = (cell.case == Case::Skew).then(find_faketime);
    let faketime = match faketime.transpose() {
        Ok(faketime) => faketime,
        Err(reason) => {
            bench.remark(skipped(&reason));
            return Ok(());
        }
    };
    let store = Store::start(cell.is_cluster, cell.case.link());
    // Stopped before its store.
    let mut fleet = Fleet::start(tollgate, cell, &store, faketime.as_deref())?;
    if faketime.is_some() && !fleet.has_wrong_clocks() {
        bench.remark(skipped("libfaketime has no effect on the server"));
        return Ok(());
    }

    let pids: Vec<u32> = fleet.pids().chain(store.pids()).collect();
    let (case, load) = (cell.name(), cell.load_text());
    let strict = bench.report.row(&case, &load, &Mode::Strict.name());
    let strict = strict.map(|row| row.median("admitted"));
    let round = |_| {
        let mut figures = run(cell, &mut fleet, &store)?;
        // Admitted requests, relative to those of strict limits in the same case.
        figures.extend(strict.map(|strict| ("admitted_to_strict", figures["admitted"] / strict)));
        Ok(figures)
    };
    let entrant = Entrant::new(cell.mode.name(), load, round);
    let rows = bench.measure(&case, &pids, vec![entrant])?;

    let summary =
        "  over by {over:1}, bound {excess_bound:0}, used {utilisation:3}, p99 {p99_us:ms} ms";
    eprintln!("{}", rows[0].text(summary));
    let remarks = report::remarks(cell, &rows[0]);
    remarks.into_iter().for_each(|remark| bench.remark(remark));
    Ok(())
}

/// Runs one cell once: no load for a while, the load, the interference during it, and the retries
/// after it.
fn run(cell: &Cell, fleet: &mut Fleet, store: &Store) -> Result<Figures> {
    let idle_before = store.script_calls();
    pause(IDLE);
    let idle_calls = store.script_calls() - idle_before;

    let (plan, runtime) = (plan(cell, fleet)?, Runtime::CurrentThread.build()?);
    let (started, start) = channel();
    let (mut epoch_us, mut calls_before) = (0, 0);
    let origin = now();
    let clock_before = clock_offset_us(origin);
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
        clock_error_us: CLOCK_ERROR_US + clock_before.abs_diff(clock_offset_us(origin)),
        script_calls: store.script_calls().saturating_sub(calls_before),
    };
    fleet.wait_until_ready()?;
    let mut figures = figures(cell, &trace);
    // Script calls per second before the load.
    figures.insert("idle_calls_per_s", float(idle_calls) / IDLE.as_secs_f64());
    figures.extend(replay(cell.limit, &trace.requests, epoch_us)?);
    if cell.case.link() == Link::PATIENT {
        figures.extend(try_retry_times(fleet.addresses(), cell)?);
    }
    Ok(figures)
}

/// Checks of the cell's limit.
fn plan(cell: &Cell, fleet: &Fleet) -> Result<LoadPlan> {
    let key = ValueTemplate::parse("{key}")?;
    let request = RequestKind::Check {
        attributes: vec![("user".parse()?, key)],
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
    let pause_us = |us| pause(Duration::from_micros(us));
    match cell.case {
        Case::Killed => {
            pause_us(LEAD_US + schedule::middle_us(cell));
            fleet.kill(KILLED);
        }
        Case::Restart => {
            pause_us(LEAD_US + schedule::middle_us(cell));
            store.restart();
        }
        Case::Flush => {
            for _ in 0..cell.length_ms * 1_000 / FLUSH_EVERY_US {
                pause_us(FLUSH_EVERY_US);
                store.flush_scripts();
            }
        }
        Case::Hiccups => {
            for _ in 0..cell.holes {
                pause_us(schedule::hole_every_us(cell) - HOLE_US);
                store.freeze(Duration::from_micros(HOLE_US));
            }
        }
        _ => {}
    }
}

/// By how much the wall clock, which is also that of the store, is ahead of a clock that is never
/// set. It changes if the wall clock is set or adjusted.
fn clock_offset_us(origin: Instant) -> u64 {
    let wall = wall_clock().duration_since(SystemTime::UNIX_EPOCH);
    micros(wall.unwrap_or_default().saturating_sub(origin.elapsed()))
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::cells::tests;
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
        let mut bench = Bench::new(&BenchArguments::default(), [(1, 0); 2]);
        assert_eq!(measure(&cells, &tollgate, &mut bench), 0);
        let [strict, local] = &bench.report.rows[..] else {
            panic!("not two rows: {:?}", bench.report)
        };
        for (row, is_over) in [(strict, false), (local, true)] {
            assert_eq!(row.text("{offered:,}"), "1,200");
            assert!(row.median("admitted") > 0.0, "{row:?}");
            assert_eq!(row.median("over") > 0.0, is_over, "{row:?}");
            assert_eq!(row.text("{is_exceeded:0}"), "0", "{row:?}");
        }
    }
}
