//! `tollgate simulate` on a large log: lines per second and core, and peak memory.
//!
//! The program is measured as users run it, in a separate process. CPU time is taken from the
//! system's accounting, so other programs on the machine do not count, although they slow down a
//! process that shares caches with them.

mod log;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use testkit::wait;

use crate::harness::others::{Usage, children_ticks};
use crate::harness::{
    Bench, Entrant, Figures, OutputArguments, Process, Row, Table, float, grouped, timing,
    tollgate_program,
};

/// Three limits of a typical API: one for every address, one for the API, one for logins.
const CONFIG: &str = include_str!("limits.yaml");

/// The longest time that a run may take.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// The system counts CPU time of processes in ticks of this length.
const TICK_NS: f64 = 1e7;

const RATE: &str = "lines_per_second";
const CPU: &str = "cpu_ns_per_line";
const PEAK: &str = "peak_memory_mb";
const DENIED: &str = "denied";
/// The share of the machine that other programs used.
const OTHERS: &str = "others_share";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Size of the log in megabytes [default: 1000, or 100 with --quick]
    #[arg(long)]
    megabytes: Option<u64>,
    /// Path of the tollgate binary to measure; defaults to the one in the directory of this program
    #[arg(long)]
    tollgate: Option<PathBuf>,
}

/// Measures, prints the table and writes the numbers and the picture. The log is written to the
/// directory of the numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let default = if arguments.output.quick { 100 } else { 1_000 };
    let megabytes = arguments.megabytes.unwrap_or(default);
    let tollgate = tollgate_program(arguments.tollgate.as_ref())?;
    let out = arguments.output.file("simulate");
    let (config, log) = (
        out.with_file_name("simulate.yaml"),
        out.with_file_name("simulate.log"),
    );
    let mut bench = Bench::new(&arguments.output, 4, [(1, 0), (5, 0)]);
    bench.warm_up = None;
    bench
        .progress
        .step(&format!("a log of {megabytes} MB in {}", log.display()));
    fs::create_dir_all(out.parent().unwrap_or(Path::new(".")))?;
    fs::write(&config, CONFIG)?;
    let lines = log::write(&log, megabytes * 1_000_000)?;

    for (case, options, rounds) in [
        ("three limits", vec![], bench.rounds),
        ("against another", vec![Path::new("--against"), &config], 1),
        ("with --suggest", vec![Path::new("--suggest")], 1),
    ] {
        bench.progress.step(case);
        bench.rounds = rounds;
        let round = |_| {
            let mut command = Command::new(&tollgate);
            command
                .args(["simulate", "--json", "--config"])
                .arg(&config);
            command.args(&options).arg(&log);
            run_to_end(command, lines)
        };
        bench.measure(case, &[], vec![Entrant::new("tollgate", "", round)])?;
    }
    let log_bytes = fs::metadata(&log)?.len();
    let panels = [("CPU nanoseconds per line: shorter is better", CPU)];
    let title = "Replaying an access log";
    bench.publish("simulate", title, &panels, |mut report| {
        let clients = log::CLIENTS;
        let log = format!("a log of {lines} lines, {log_bytes} bytes and up to {clients} clients");
        report.programs = vec![log];
        report.tables = vec![table(lines, log_bytes, &report.rows)];
        report
    })
}

fn table(lines: u64, log_bytes: u64, rows: &[Row]) -> Table {
    let lines = grouped(usize::try_from(lines).unwrap_or(usize::MAX));
    let title = format!(
        "{lines} lines, {} MB, combined format",
        log_bytes / 1_000_000
    );
    let heads = [
        "",
        "lines/s",
        "lines/s of a core",
        "CPU ns/line",
        "least",
        "peak MB",
        "denied",
        "others",
    ];
    Table::new(title, heads).with_lines(rows, |row| {
        vec![
            row.case.clone(),
            row.number(RATE, 0),
            format!("{:.0}", 1e9 / row.median(CPU)),
            row.number(CPU, 1),
            // Other programs disturbed this round least.
            format!("{:.1}", row.spread(CPU).min),
            format!("{:.1}", row.spread(PEAK).max),
            row.count(DENIED),
            format!("{:.0}%", row.spread(OTHERS).max * 100.0),
        ]
    })
}

/// Runs a program that prints one JSON object, on a log with this number of lines.
fn run_to_end(command: Command, lines: u64) -> Result<Figures> {
    let program = command.get_program().display().to_string();
    let (usage, ticks) = (Usage::read(&[]), children_ticks());
    let began = timing::now();
    let mut process = Process::spawn(command)?;
    let mut peak_kb = 0.0_f64;
    let status = wait::within(PATIENCE, || {
        peak_kb = peak_kb.max(peak_of(process.pid()).unwrap_or_default());
        process.ended()
    });
    let wall = began.elapsed();
    let is_success = status.is_some_and(|status| status.success());
    ensure!(is_success, "{program} failed");

    let report: Value = serde_json::from_str(&process.output())?;
    let denied = report["configuration"]["denied"].as_u64();
    let ticks = children_ticks().saturating_sub(ticks);
    Ok(Figures::from([
        (RATE, float(lines) / wall.as_secs_f64()),
        (CPU, float(ticks) * TICK_NS / float(lines)),
        (PEAK, peak_kb / 1e3),
        (DENIED, float(denied.unwrap_or_default())),
        (OTHERS, Usage::share_since(usage, &[])),
    ]))
}

/// The peak memory of a process so far, in kilobytes.
fn peak_of(pid: u32) -> Option<f64> {
    parse_peak(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_peak(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_memory_is_read_from_proc() {
        assert_eq!(
            parse_peak("Name:\tx\nVmHWM:\t   1234 kB\nVmRSS: 9 kB\n"),
            Some(1_234.0)
        );
        assert_eq!(parse_peak(""), None);
    }

    #[test]
    fn a_program_is_measured_to_its_end() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run_to_end(command, 10)
        };
        let run = shell(r#"echo '{"configuration":{"denied":7}}'"#).unwrap();
        assert!(
            (run[DENIED] - 7.0).abs() < 1e-9 && run[RATE] > 0.0,
            "{run:?}"
        );
        assert!(shell("exit 3").is_err());
    }

    #[test]
    fn the_table_shows_medians_and_extremes() {
        let round = |cpu, others| {
            Figures::from([
                (RATE, 2e6),
                (CPU, cpu),
                (PEAK, 31.25),
                (DENIED, 12_345.0),
                (OTHERS, others),
            ])
        };
        let rounds = vec![round(500.0, 0.1), round(480.0, 0.2), round(900.0, 0.0)];
        let rows = [Row::new("three limits", "", "tollgate", rounds)];
        let expected = "\
5,500,000 lines, 1000 MB, combined format

              lines/s  lines/s of a core  CPU ns/line  least  peak MB  denied  others
three limits  2000000            2000000        500.0  480.0     31.2  12,345     20%
";
        assert_eq!(table(5_500_000, 1_000_000_000, &rows).to_string(), expected);
    }
}
