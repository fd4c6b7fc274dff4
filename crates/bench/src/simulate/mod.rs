//! `tollgate simulate` on a large log: lines per second and core, and peak memory.
//!
//! The program is measured as users run it, in a separate process. CPU time is taken from the
//! system's accounting, so other programs on the machine do not count, although they slow down a
//! process that shares caches with them.

mod log;
mod process;

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use self::process::{Run, run_to_end};
use crate::machine::Machine;
use crate::others::Usage;
use crate::progress::Progress;
use crate::text::{grouped, write_lines};
use crate::{output, stats};

/// Three limits of a typical API: one for every address, one for the API, one for logins.
const CONFIG: &str = r#"
limits:
  - { name: per-address, key: [client_ip], algorithm: sliding_window, limit: 600, window: 1m }
  - name: api
    match: { path: "/v1/**" }
    key: [client_ip]
    algorithm: token_bucket
    capacity: 100
    refill_rate: 10/s
  - name: login
    match: { method: POST, path: /auth/login }
    key: [client_ip]
    algorithm: sliding_log
    limit: 5
    window: 15m
"#;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Use a log of 100 MB and one round, as a smoke test; do not quote its numbers
    #[arg(long)]
    quick: bool,
    /// Size of the log in megabytes
    #[arg(long)]
    megabytes: Option<u64>,
    /// Output for the numbers: a .json file, or a directory in which simulate.json is written. The
    /// log is written to the same directory
    #[arg(long, default_value = "target/bench/simulate.json")]
    out: PathBuf,
    /// Path of the tollgate binary to measure; defaults to the one in the directory of this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
}

/// The results of all cases.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    log_bytes: u64,
    lines: u64,
    clients: u64,
    results: Vec<CaseResult>,
}

/// The result of one case, the median of its rounds.
#[derive(Debug, Serialize)]
struct CaseResult {
    case: &'static str,
    lines_per_second: f64,
    lines_per_core_second: f64,
    cpu_ns_per_line: f64,
    /// The smallest value of all rounds, which other programs disturbed least.
    cpu_ns_per_line_min: f64,
    peak_memory_mb: f64,
    refused: u64,
    /// The largest share of the machine that other programs used in any round.
    others_share: f64,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let megabytes = arguments
        .megabytes
        .unwrap_or(if arguments.quick { 100 } else { 1_000 });
    let rounds = if arguments.quick { 1 } else { 5 };
    let out = output::file(&arguments.out, "simulate.json");
    let folder = out.parent().unwrap_or(Path::new(".")).to_owned();
    fs::create_dir_all(&folder)?;
    let tollgate = program(arguments)?;
    let (config, log) = (folder.join("simulate.yaml"), folder.join("simulate.log"));
    let mut progress = Progress::new(4);
    progress.step(&format!("a log of {megabytes} MB in {}", log.display()));
    fs::write(&config, CONFIG)?;
    let lines = log::write(&log, megabytes * 1_000_000)?;
    let plain = [
        Path::new("simulate"),
        Path::new("--json"),
        Path::new("--config"),
        &config,
    ];
    let mut results = Vec::new();
    for (case, more, rounds) in [
        ("three limits", vec![], rounds),
        ("against another", vec![Path::new("--against"), &config], 1),
        ("with --suggest", vec![Path::new("--suggest")], 1),
    ] {
        progress.step(case);
        let runs: io::Result<Vec<(Run, f64)>> = (0..rounds)
            .map(|round| {
                progress.round(round, rounds, case);
                let mut command = Command::new(&tollgate);
                command.args(plain).args(&more).arg(&log);
                let before = Usage::read(&[]);
                let run = run_to_end(command)?;
                let others = before
                    .zip(Usage::read(&[]))
                    .map_or(0.0, |(before, now)| now.others_since(before));
                Ok((run, others))
            })
            .collect();
        results.push(measured(case, &runs?, lines));
    }
    let log_bytes = fs::metadata(&log)?.len();
    let report = Report {
        machine: Machine::this(),
        log_bytes,
        lines,
        clients: log::CLIENTS,
        results,
    };
    fs::write(&out, serde_json::to_string_pretty(&report)?)?;
    eprintln!("wrote {}", out.display());
    output::print(&report)
}

fn program(arguments: &Arguments) -> io::Result<PathBuf> {
    let beside = || env::current_exe().map(|program| program.with_file_name("tollgate"));
    let tollgate = arguments.tollgate.clone().map_or_else(beside, Ok)?;
    if tollgate.is_file() {
        return Ok(tollgate);
    }
    Err(io::Error::other(format!(
        "{} not found; build it with `cargo build --release --package tollgate-server`, \
         or pass another path with --tollgate",
        tollgate.display()
    )))
}

fn measured(case: &'static str, runs: &[(Run, f64)], lines: u64) -> CaseResult {
    let lines = float(lines);
    let per_line = |run: &Run| run.cpu.as_secs_f64() * 1e9 / lines;
    let median = |of: &dyn Fn(&Run) -> f64| {
        stats::Spread::of(runs.iter().map(|(run, _)| of(run)).collect()).median
    };
    let cpu = median(&per_line);
    CaseResult {
        case,
        lines_per_second: (lines / median(&|run| run.wall.as_secs_f64())).round(),
        lines_per_core_second: (1e9 / cpu).round(),
        cpu_ns_per_line: stats::tenth(cpu),
        cpu_ns_per_line_min: stats::tenth(
            runs.iter()
                .map(|(run, _)| per_line(run))
                .fold(f64::MAX, f64::min),
        ),
        peak_memory_mb: stats::tenth(
            runs.iter().map(|(run, _)| run.peak_kb).fold(0.0, f64::max) / 1e3,
        ),
        refused: runs.first().map_or(0, |(run, _)| run.refused),
        others_share: runs.iter().map(|(_, others)| *others).fold(0.0, f64::max),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a log has fewer than 2^53 lines"
)]
fn float(number: u64) -> f64 {
    number as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: u64| grouped(usize::try_from(number).unwrap_or(usize::MAX));
        writeln!(
            f,
            "{} lines, {} MB, combined format\n",
            count(self.lines),
            self.log_bytes / 1_000_000
        )?;
        let head = [
            "",
            "lines/s",
            "lines/s of a core",
            "CPU ns/line",
            "least",
            "peak MB",
            "denied",
            "others",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        lines.extend(self.results.iter().map(|result| {
            vec![
                result.case.to_owned(),
                format!("{:.0}", result.lines_per_second),
                format!("{:.0}", result.lines_per_core_second),
                result.cpu_ns_per_line.to_string(),
                result.cpu_ns_per_line_min.to_string(),
                result.peak_memory_mb.to_string(),
                count(result.refused),
                format!("{:.0}%", result.others_share * 100.0),
            ]
        }));
        write_lines(f, &lines)
    }
}
