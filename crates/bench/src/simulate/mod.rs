//! `tollgate simulate` on a large log: lines per second and core, and peak memory.
//!
//! The program is measured as users run it, in a separate process. CPU time is taken from the
//! system's accounting, so other programs on the machine do not count, although they slow down a
//! process that shares caches with them.

use crate::harness::prelude::*;
use fastrand::Rng;
use serde_json::Value;
use std::fs;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use testkit::wait;

/// Three limits of a typical API: one for every address, one for the API, one for logins.
const CONFIG: &str = include_str!("limits.yaml");

/// The longest time that a run may take.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// Measures, prints the table and writes the numbers and the picture. The log is written to the
/// directory of the numbers.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let megabytes = if arguments.quick { 100 } else { 1_000 };
    let tollgate = arguments.tollgate()?;
    let out = arguments.file("simulate");
    let [config, log] = ["yaml", "log"].map(|extension| out.with_extension(extension));
    let mut bench = Bench::new(arguments, [(1, 0), (5, 0)]);
    bench.is_warmed_up = false;
    fs::create_dir_all(out.parent().unwrap_or(Path::new(".")))?;
    fs::write(&config, CONFIG)?;
    let lines = write_log(&log, megabytes * 1_000_000)?;

    for (case, options, rounds) in [
        ("three limits", vec![], bench.rounds),
        ("against another", vec![Path::new("--against"), &config], 1),
        ("with --suggest", vec![Path::new("--suggest")], 1),
    ] {
        bench.rounds = rounds;
        let round = |_| {
            let mut command = Command::new(&tollgate);
            command
                .args(["simulate", "--json", "--config"])
                .arg(&config);
            command.args(&options).arg(&log);
            run_to_end(command, lines)
        };
        if bench.begins(case) {
            bench.measure(case, &[], vec![Entrant::new("tollgate", "", round)])?;
        }
    }

    let bytes = fs::metadata(&log)?.len();
    let published = bench.publish("simulate", |report| {
        let clients = CLIENTS;
        let log = format!("a log of {lines} lines, {bytes} bytes and up to {clients} clients");
        report.programs = vec![log];
        report.tables = vec![table(lines, bytes, &report.rows)];
        let panel = (
            "CPU nanoseconds per line: shorter is better",
            "cpu_ns_per_line",
        );
        report.draw("Replaying an access log", &[panel]);
    });
    published.map(drop)
}

fn table(lines: u64, log_bytes: u64, rows: &[Row]) -> Table {
    let (lines, mb) = (grouped(whole(float(lines))), log_bytes / 1_000_000);
    let title = format!("{lines} lines, {mb} MB, combined format");
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
            row.text("{lines_per_second:0}"),
            format!("{:.0}", 1e9 / row.median("cpu_ns_per_line")),
            row.text("{cpu_ns_per_line:1}"),
            // Other programs disturbed this round least.
            format!("{:.1}", row.spread("cpu_ns_per_line").min),
            format!("{:.1}", row.spread("peak_memory_mb").max),
            row.text("{denied:,}"),
            format!("{:.0}%", row.spread("others_share").max * 100.0),
        ]
    })
}

/// Runs a program that prints one JSON object, on a log with this number of lines.
fn run_to_end(command: Command, lines: u64) -> Result<Figures> {
    let program = command.get_program().display().to_string();
    let (usage, ticks, began) = (Usage::read(&[]), children_ticks(), now());
    let mut process = Process::spawn(command)?;
    let mut peak_kb = 0.0_f64;
    let status = wait::within(PATIENCE, || {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid()));
        peak_kb = peak_kb.max(parse_peak(&status.unwrap_or_default()).unwrap_or_default());
        process.ended()
    });
    let wall = began.elapsed();
    let is_success = status.is_some_and(|status| status.success());
    ensure!(is_success, "{program} failed");

    let report: Value = serde_json::from_str(&process.output())?;
    let denied = report["configuration"]["denied"].as_u64();
    let ticks = children_ticks().saturating_sub(ticks);
    Ok(Figures::from([
        ("lines_per_second", float(lines) / wall.as_secs_f64()),
        ("cpu_ns_per_line", float(ticks) * TICK_NS / float(lines)),
        ("peak_memory_mb", peak_kb / 1e3),
        ("denied", float(denied.unwrap_or_default())),
        // The share of the machine that other programs used.
        ("others_share", Usage::share_since(usage, &[])),
    ]))
}

/// The peak memory of a process so far, in kilobytes.
fn parse_peak(status: &str) -> Option<f64> {
    let peak = field(status, "VmHWM:")?.strip_suffix(" kB")?;
    peak.trim().parse().ok()
}

/// The number of clients.
const CLIENTS: u64 = 100_000;
/// The number of lines with the same time.
const PER_SECOND: u64 = 2_000;
const SEED: u64 = 7;
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/130.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 \
     (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "python-requests/2.32",
    "curl/8.5.0",
];

const REQUESTS: [&str; 10] = [
    "POST /auth/login",
    "GET /v1/users",
    "GET /v1/users/{id}/orders?page={page}",
    "GET /v1/items/{id}",
    "GET /v1/search?q=word{id}&sort=asc",
    "GET /static/app.{id}.js",
    "GET /index.html",
    "GET /images/logo.png",
    "GET /healthz",
    "GET /",
];

/// Writes a log of about `bytes` bytes and returns its number of lines. The log is the same on
/// every machine.
fn write_log(path: &Path, bytes: u64) -> io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut random, mut lines, mut written) = (Rng::with_seed(SEED), 0, 0);
    while written < bytes {
        let line = line(&mut random, lines);
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        lines += 1;
    }
    file.flush()?;
    Ok(lines)
}

/// The line with this number, with the line break.
fn line(random: &mut Rng, number: u64) -> String {
    let (client, request) = (client(random), request(random));
    let time = number / PER_SECOND;
    let (day, hour, minute, second) = (
        1 + time / 86_400,
        time / 3_600 % 24,
        time / 60 % 60,
        time % 60,
    );
    let (bytes, agent) = (
        random.u32(100..100_000),
        AGENTS[random.usize(..AGENTS.len())],
    );
    format!(
        "{client} - - [{day:02}/Oct/2026:{hour:02}:{minute:02}:{second:02} +0000] \
         \"{request} HTTP/1.1\" 200 {bytes} \"https://example.com/\" \"{agent}\"\n"
    )
}

/// Draws a client. The fourth power of a uniform random number below 1 makes the first few clients
/// the busiest.
fn client(random: &mut Rng) -> Ipv4Addr {
    let drawn = u128::from(random.u16(..));
    let rank = (drawn.pow(4) * u128::from(CLIENTS)) >> 64;
    let scattered = u32::try_from(rank)
        .unwrap_or_default()
        .wrapping_mul(0x9e37_79b1);
    Ipv4Addr::from((scattered & 0x7fff_ffff) | 0x0100_0000)
}

/// Draws a method and a path.
fn request(random: &mut Rng) -> String {
    let id = random.u32(..100_000);
    let request = REQUESTS[random.u32(..10) as usize];
    let request = request.replace("{id}", &id.to_string());
    request.replace("{page}", &(id % 40).to_string())
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
            (run["denied"] - 7.0).abs() < 1e-9 && run["lines_per_second"] > 0.0,
            "{run:?}"
        );
        assert!(shell("exit 3").is_err());
    }

    #[test]
    fn the_table_shows_medians_and_extremes() {
        let round = |cpu, others| {
            Figures::from([
                ("lines_per_second", 2e6),
                ("cpu_ns_per_line", cpu),
                ("peak_memory_mb", 31.25),
                ("denied", 12_345.0),
                ("others_share", others),
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

    #[test]
    fn lines_are_those_of_the_combined_format() {
        let line = line(&mut Rng::with_seed(SEED), 3_601 * PER_SECOND);
        assert!(
            line.contains(" - - [01/Oct/2026:01:00:01 +0000] \""),
            "{line}"
        );
        assert_eq!(
            (line.matches('"').count(), line.ends_with("\"\n")),
            (6, true),
            "{line}"
        );
    }

    #[test]
    fn few_clients_are_busy_and_many_are_there() {
        let mut random = Rng::with_seed(SEED);
        let clients: Vec<Ipv4Addr> = (0..20_000).map(|_| client(&mut random)).collect();
        let distinct: std::collections::HashSet<_> = clients.iter().collect();
        assert!(distinct.len() > 5_000, "{}", distinct.len());
        let most = distinct
            .iter()
            .map(|one| clients.iter().filter(|client| client == one).count())
            .max();
        assert!(most > Some(500), "{most:?}");
    }
}
