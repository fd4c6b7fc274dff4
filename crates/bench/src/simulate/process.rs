//! Runs a program to its end and measures wall-clock time, CPU time and peak memory.

use std::fs;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::wait;

use crate::timing;

/// The longest time that a run may take.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// The system counts CPU time of processes in ticks of this length.
const TICK: Duration = Duration::from_millis(10);

/// The measurements of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) peak_kb: f64,
    /// The number of denied requests in the program's report.
    pub(super) refused: u64,
}

/// Runs a program that prints one JSON object.
pub(super) fn run_to_end(mut command: Command) -> io::Result<Run> {
    let before = children_ticks();
    let began = timing::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("no standard output"))?;
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let mut peak_kb = 0.0_f64;
    let status = wait::within(PATIENCE, || {
        peak_kb = peak_kb.max(peak_of(child.id()).unwrap_or_default());
        child.try_wait().ok().flatten()
    });
    let wall = began.elapsed();
    if !status.is_some_and(|status| status.success()) {
        drop(child.kill());
        drop(child.wait());
        return Err(io::Error::other(format!(
            "{} failed",
            command.get_program().display()
        )));
    }
    let text = reading
        .join()
        .map_err(|_| io::Error::other("cannot read the output"))??;
    let report: serde_json::Value = serde_json::from_str(&text)?;
    let ticks = u32::try_from(children_ticks().saturating_sub(before)).unwrap_or(u32::MAX);
    Ok(Run {
        wall,
        cpu: TICK * ticks,
        peak_kb,
        refused: report["configuration"]["refused"]
            .as_u64()
            .unwrap_or_default(),
    })
}

/// The ticks of children that have exited and were waited for: fields 16 and 17, after the name in
/// parentheses.
fn children_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse_children(&stat).unwrap_or_default()
}

fn parse_children(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?)
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
    fn fields_of_proc_are_read_by_position() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 90 80 0 0 11 12 13 14 20 0 1 0 55";
        assert_eq!(parse_children(stat), Some(27));
        assert_eq!(
            parse_peak("Name:\tx\nVmHWM:\t   1234 kB\nVmRSS: 9 kB\n"),
            Some(1_234.0)
        );
        assert_eq!((parse_children(""), parse_peak("")), (None, None));
    }

    #[test]
    fn a_program_is_measured_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo '{"configuration":{"refused":7}}'"#]);
        assert_eq!(run_to_end(command).unwrap().refused, 7);
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        assert!(run_to_end(command).is_err());
    }
}
