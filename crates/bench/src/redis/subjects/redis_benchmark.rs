//! redis-benchmark, the field's usual yardstick, calling the same script.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use super::super::check_script;
use super::super::entrant::{Crowd, Entrant, Subject};
use super::super::report::Round;
use super::super::target::Target;

const PROGRAM: &str = "redis-benchmark";
/// The default of redis-benchmark.
const CLIENTS: usize = 50;
/// The number of decisions in the first round, before the speed is known.
const FIRST: f64 = 20_000.0;

pub(in super::super) struct RedisBenchmark {
    name: &'static str,
    pipeline: usize,
    addr: SocketAddr,
    script: String,
    keys: u32,
    /// The rate of the last round.
    decisions_per_s: Option<f64>,
}

impl RedisBenchmark {
    pub(super) fn new(name: &'static str, pipeline: usize, target: &Target, keys: u32) -> Self {
        let (addr, script) = (target.server.addr(), target.script_with_arguments.clone());
        Self {
            name,
            pipeline,
            addr,
            script,
            keys,
            decisions_per_s: None,
        }
    }

    fn command(&self, decisions: u64) -> io::Result<Command> {
        let key = if self.keys == 1 {
            check_script::key(0)
        } else {
            check_script::key_to_draw()
        };
        let key = String::from_utf8(key).map_err(io::Error::other)?;
        let mut command = Command::new(PROGRAM);
        command.args([
            "-h",
            &self.addr.ip().to_string(),
            "-p",
            &self.addr.port().to_string(),
            "--csv",
        ]);
        command.args(["-c", &CLIENTS.to_string(), "-P", &self.pipeline.to_string()]);
        command.args(["-n", &decisions.to_string()]);
        if self.keys > 1 {
            command.args(["-r", &self.keys.to_string()]);
        }
        command.args(["EVALSHA", &self.script, "1", &key]);
        Ok(command)
    }
}

impl Entrant for RedisBenchmark {
    fn subject(&self) -> Subject {
        Subject {
            name: self.name,
            runtime: None,
        }
    }

    fn crowd(&self) -> Crowd {
        Crowd {
            callers: CLIENTS,
            pipeline: self.pipeline,
        }
    }

    fn round(&mut self, length: Duration) -> io::Result<Round> {
        let decisions = self
            .decisions_per_s
            .map_or(FIRST, |per_s| per_s * length.as_secs_f64());
        let output = self
            .command(whole(decisions))?
            .output()
            .map_err(|error| missing(&error))?;
        let round = parsed(&output)?;
        self.decisions_per_s = Some(round.decisions_per_s);
        Ok(round)
    }
}

/// The program's name and version, as it prints them.
pub(in super::super) fn version() -> io::Result<String> {
    let output = Command::new(PROGRAM)
        .arg("--version")
        .output()
        .map_err(|error| missing(&error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn missing(error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot run {PROGRAM} (it is part of Redis): {error}"),
    )
}

fn parsed(output: &Output) -> io::Result<Round> {
    let text = String::from_utf8_lossy(&output.stdout);
    let round = if output.status.success() {
        parse(&text)
    } else {
        None
    };
    round.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!(
            "unexpected output of {PROGRAM}: {} {}",
            text.trim(),
            errors.trim()
        ))
    })
}

/// Parses the second line by the column names in the first. The name of the test is the command and
/// may contain anything, so fields are counted from the end.
fn parse(csv: &str) -> Option<Round> {
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines
        .next()?
        .trim()
        .split(',')
        .map(|field| field.trim_matches('"'))
        .collect();
    let fields: Vec<&str> = lines.next()?.trim().rsplit("\",\"").collect();
    let field = |name| {
        let from_end = heads.iter().rev().position(|head| *head == name)?;
        fields.get(from_end)?.trim_matches('"').parse::<f64>().ok()
    };
    Some(Round {
        decisions_per_s: field("rps")?,
        p50_us: field("p50_latency_ms")? * 1e3,
        p99_us: field("p99_latency_ms")? * 1e3,
        calls_per_decision: 1.0,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what fits"
)]
fn whole(decisions: f64) -> u64 {
    decisions.clamp(1_000.0, 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: &str = concat!(
        r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","#,
        r#""p95_latency_ms","p99_latency_ms","max_latency_ms""#
    );

    #[test]
    fn numbers_are_found_by_the_heads_of_their_columns() {
        let line = concat!(
            r#""EVALSHA 5f13 1 a:{=user:__rand_int__}api|t","27777.78","0.054","#,
            r#""0.024","0.047","0.087","0.175","1.975""#
        );
        let round = parse(&format!("{HEADS}\n{line}\n")).unwrap();
        assert!((round.decisions_per_s - 27_777.78).abs() < 1e-9);
        assert!((round.p50_us - 47.0).abs() < 1e-9, "{round:?}");
        assert!((round.p99_us - 175.0).abs() < 1e-9, "{round:?}");
        assert!((round.calls_per_decision - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_command_may_hold_what_separates_fields() {
        let line = r#""SET a","b","9.5","0","0","1.0","0","2.0","0""#;
        assert!(
            (parse(&format!("{HEADS}\r\n{line}\r\n"))
                .unwrap()
                .decisions_per_s
                - 9.5)
                .abs()
                < 1e-9
        );
    }

    #[test]
    fn a_missing_field_is_not_a_number() {
        assert_eq!(parse(""), None);
        assert_eq!(parse(HEADS), None);
        assert_eq!(
            parse(&format!(
                "{HEADS}\n\"SET\",\"x\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"\n"
            )),
            None
        );
    }

    #[test]
    fn the_number_of_decisions_is_clamped() {
        assert_eq!(
            [0.0, 5_000.7, 1e12].map(whole),
            [1_000, 5_000, 1_000_000_000]
        );
    }
}
